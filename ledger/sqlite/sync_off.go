//go:build mutant_sync_off

package sqlite

// syncMode is wrong on purpose: a build with this tag has to fail the test
// that watches the syncs.
const syncMode = "OFF"
