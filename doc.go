// Package notifier holds the words that the parts of the service share: what a
// notification, a delivery, an outcome and a key are, and what goes into and
// comes out of the ledger's transitions. It imports the standard library only.
package notifier
