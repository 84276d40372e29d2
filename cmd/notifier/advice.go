package main

import (
	"strings"

	"github.com/seed-4b260dfd/notifier"
)

// adviceFor is adviceFor, of a client whose requests are not messages too.
func (c *client) adviceFor(code notifier.Code, field string) string {
	switch {
	case c.unclear == "":
		return adviceFor(code, field)
	case code == notifier.CodeInternal, code == notifier.CodeLedgerUnavailable, code == notifier.CodeOverloaded:
		return c.unclear
	case code == notifier.CodeInvalid, code == notifier.CodeUnknownType:
		return "correct it and try again"
	default:
		return adviceFor(code, field)
	}
}

// adviceFor says what to do about an error of the API.
func adviceFor(code notifier.Code, field string) string {
	switch code {
	case notifier.CodeKeyRequired:
		return "add -key, equal in every copy of the same request"
	case notifier.CodeUnknownType:
		return "correct -type, or add the policy to the server's policies folder and restart it"
	case notifier.CodeDataMissing:
		return "add -data " + strings.TrimPrefix(field, "data.") + "=VALUE"
	case notifier.CodeUnknownField:
		if name, ok := strings.CutPrefix(field, "data."); ok {
			return "leave out -data " + name + "=…, or declare it in the policy"
		}
		return "leave it out"
	case notifier.CodeUnsupportedField:
		return "leave it out"
	case notifier.CodeInvalid:
		return "correct it and send again"
	case notifier.CodeTemplateFailed:
		return "correct the template, or the data"
	case notifier.CodeNoAddress:
		return "add -to channel=address for a channel of the type"
	case notifier.CodeUnauthenticated:
		return "set NOTIFIER_API_KEY to a key of the server's api_keys"
	case notifier.CodeForbidden:
		return "use an API key that may do this"
	case notifier.CodeNotFound:
		return "check the id, the server and the API key's tenant"
	case notifier.CodeStateConflict, notifier.CodeVersionConflict:
		return `look at it with "notifier status"`
	case notifier.CodeRequestTooLarge, notifier.CodePayloadTooLarge:
		return "shorten the data or the template"
	case notifier.CodeKeyReused:
		return "use another -key for another message"
	case notifier.CodeRateLimited:
		return "send again later, with the same -key"
	case notifier.CodeInternal, notifier.CodeLedgerUnavailable, notifier.CodeOverloaded, notifier.CodeKeyBusy:
		return "it may have been accepted: send again with the same -key, which makes no second one"
	default:
		return ""
	}
}
