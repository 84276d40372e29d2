package main

import (
	"io/fs"
	"os"
)

// disk is the file system under the names that people type: absolute, or
// relative to where they are, ".." included. os.DirFS knows neither, and names
// in messages must be the ones that were typed.
type disk struct{}

// Open opens a file.
func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

// ReadFile reads a file.
func (disk) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

// ReadDir lists a folder.
func (disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
