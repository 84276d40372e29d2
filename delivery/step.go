package delivery

// step names a point at which a process may stop: before or after one of the
// steps of a delivery's life. The crash matrix has a row for each.
type step string

const (
	acceptBefore   step = "accept.before"
	acceptAfter    step = "accept.after"
	leaseBefore    step = "lease.before"
	leaseAfter     step = "lease.after"
	claimBefore    step = "claim.before"
	claimAfter     step = "claim.after"
	capsBefore     step = "caps.before"
	capsAfter      step = "caps.after"
	permitBefore   step = "permit.before"
	permitAfter    step = "permit.after"
	callBefore     step = "call.before"
	callAfter      step = "call.after"
	completeBefore step = "complete.before"
	completeAfter  step = "complete.after"
	settleBefore   step = "settle.before"
	settleAfter    step = "settle.after"
)
