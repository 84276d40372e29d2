package notifier

// Code is the machine-readable kind of an error that crosses the API.
type Code string

// The codes of the API. Which status each has, and whether the same key may be
// used again, is in package api.
const (
	CodeKeyRequired       Code = "key_required"
	CodeInvalid           Code = "invalid"
	CodeUnknownField      Code = "unknown_field"
	CodeUnsupportedField  Code = "unsupported_field"
	CodeUnknownType       Code = "unknown_type"
	CodeDataMissing       Code = "data_missing"
	CodeTemplateFailed    Code = "template_failed"
	CodeNoAddress         Code = "no_address"
	CodeUnauthenticated   Code = "unauthenticated"
	CodeForbidden         Code = "forbidden"
	CodeNotFound          Code = "not_found"
	CodeStateConflict     Code = "state_conflict"
	CodeVersionConflict   Code = "version_conflict"
	CodeRequestTooLarge   Code = "request_too_large"
	CodePayloadTooLarge   Code = "payload_too_large"
	CodeKeyReused         Code = "key_reused"
	CodeRateLimited       Code = "rate_limited"
	CodeInternal          Code = "internal"
	CodeLedgerUnavailable Code = "ledger_unavailable"
	CodeOverloaded        Code = "overloaded"
	CodeKeyBusy           Code = "key_busy"
)

// Error is an error that crosses the API. Code picks the status; Message says
// what is wrong and what is allowed; Field names the field at fault, if one is.
type Error struct {
	Code    Code
	Message string
	Field   string
	// Details are further members of the problem document, such as "differs".
	Details map[string]any
	// Err is the cause; it is logged, never sent to the caller.
	Err error
}

// Error returns the message, with the field in front where there is one.
func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
