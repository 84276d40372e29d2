package simulate

import (
	"fmt"
	"net/http"
)

// The codes of FCM that this simulator says by itself.
// https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
const (
	invalidArgument = "INVALID_ARGUMENT"
	unregistered    = "UNREGISTERED"
	senderMismatch  = "SENDER_ID_MISMATCH"
)

const (
	fcmErrorType   = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
	badRequestType = "type.googleapis.com/google.rpc.BadRequest"
)

// canonical is Google's name for a status: the codes of gRPC.
// https://cloud.google.com/apis/design/errors#error_model
func canonical(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusInternalServerError:
		return "INTERNAL"
	}
	return "UNKNOWN"
}

// fcmError is an answer in FCM's words: with a code, in a detail of FCM's own
// type; without one, with what all of Google's APIs say.
func fcmError(status int, code, message string, violations ...string) *answer {
	details := []map[string]any{}
	if code != "" {
		details = append(details, map[string]any{"@type": fcmErrorType, "errorCode": code})
	}
	for _, field := range violations {
		details = append(details, map[string]any{"@type": badRequestType,
			"fieldViolations": []map[string]any{{"field": field, "description": message}}})
	}
	e := map[string]any{"code": status, "message": message, "status": canonical(status)}
	if len(details) > 0 {
		e["details"] = details
	}
	reason := code
	if reason == "" {
		reason = canonical(status)
	}
	return &answer{status: status, reason: reason, payload: mustJSON(map[string]any{"error": e})}
}

// struck is a fault's answer in FCM's words. Its reason is the code; a reason
// that is the status's own name comes without a detail.
func (s *fcmServer) struck(f *Fault, ok *answer) *answer {
	switch {
	case f.Kind == FaultDeadToken:
		return fcmError(http.StatusNotFound, unregistered, "Requested entity was not found.")
	case f.Kind == FaultRedirect || f.HTML:
		return f.httpAnswer(ok)
	case f.Status/100 == 2:
		a := *ok
		a.status = f.Status
		return &a
	case f.Channel == channelFCMToken:
		return tokenError(f.Status, f.Reason, "")
	}
	code := f.Reason
	if code == canonical(f.Status) && f.Status != http.StatusBadRequest && f.Status < 500 {
		code = ""
	}
	a := fcmError(f.Status, code, fmt.Sprintf("The simulator was told to answer %d.", f.Status))
	a.retryAfter, a.reason = f.RetryAfter, f.Reason
	return a
}
