//go:build !mutant_sync_off

package sqlite

// syncMode makes every commit wait until its bytes are on the disk: what
// Accept promises rests on it.
const syncMode = "FULL"
