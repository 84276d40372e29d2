package email

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/emersion/go-smtp"

	"github.com/seed-4b260dfd/notifier"
	"github.com/seed-4b260dfd/notifier/channels"
)

// stage is how far a dialogue had come.
type stage uint8

const (
	stageConnect stage = iota + 1 // dial, greeting, EHLO, STARTTLS
	stageAuth
	stageMail // MAIL, RCPT, DATA: up to 354
	stageContent
	stageDot // the final dot has left, or may have
)

// reply is a row of the table: what a server's word means.
type reply struct {
	from, to stage
	code     int
	enhanced smtp.EnhancedCode // the zero value: any
	outcome  notifier.Outcome
	reason   notifier.Reason
}

// replies are the codes that mean something of their own (RFC 5321 section
// 4.2.3, RFC 4954 section 6, RFC 3463). All others are read by their class:
// see byClass.
var replies = [...]reply{
	// The account is refused, at whatever command the server finds the time.
	{stageConnect, stageMail, 530, smtp.EnhancedCode{}, notifier.OutcomeNotSent, notifier.ReasonBadCredentials},
	{stageConnect, stageMail, 534, smtp.EnhancedCode{}, notifier.OutcomeNotSent, notifier.ReasonBadCredentials},
	{stageConnect, stageMail, 535, smtp.EnhancedCode{}, notifier.OutcomeNotSent, notifier.ReasonBadCredentials},
	{stageConnect, stageMail, 538, smtp.EnhancedCode{}, notifier.OutcomeNotSent, notifier.ReasonBadCredentials},
	// No such mailbox; a mailbox that moved and left no word where to.
	{stageMail, stageDot, 0, smtp.EnhancedCode{5, 1, 1}, notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress},
	{stageMail, stageDot, 0, smtp.EnhancedCode{5, 1, 6}, notifier.OutcomeInvalidAddress, notifier.ReasonInvalidAddress},
	// Too big.
	{stageMail, stageDot, 0, smtp.EnhancedCode{5, 3, 4}, notifier.OutcomeRejected, notifier.ReasonBadContent},
}

// byClass reads a code by its first digit. A 5yz before MAIL is about us and
// not about this mail: the account waits to be mended. An answer that no
// server may give means, before the dot, that nothing was sent, and after it
// nothing at all.
func byClass(at stage, code int) (notifier.Outcome, notifier.Reason) {
	switch class := code / 100; {
	case class == 4:
		return notifier.OutcomeNotSent, notifier.ReasonThrottled
	case class == 5 && at < stageMail:
		return notifier.OutcomeNotSent, notifier.ReasonBadCredentials
	case class == 5:
		return notifier.OutcomeRejected, notifier.ReasonRefused
	case at < stageDot:
		return notifier.OutcomeNotSent, notifier.ReasonUnreachable
	case class == 2:
		return notifier.OutcomeSent, notifier.ReasonNone
	}
	return notifier.OutcomeUnknown, notifier.ReasonProviderError
}

// read says what an error at a stage came to. ctx is the attempt's.
func read(ctx context.Context, at stage, err error) channels.Result {
	var res channels.Result
	var said *smtp.SMTPError
	if errors.As(err, &said) {
		res.ProviderStatus = channels.ShortStatus(status(said))
		res.Outcome, res.Reason = byClass(at, said.Code)
		for _, r := range replies {
			if at >= r.from && at <= r.to && (r.code == 0 || r.code == said.Code) &&
				(r.enhanced == smtp.EnhancedCode{} || r.enhanced == said.EnhancedCode) && said.Code/100 == 5 {
				res.Outcome, res.Reason = r.outcome, r.reason
			}
		}
		// Before MAIL the server has not heard who the mail is for.
		res.AccountWide = at < stageMail && res.Reason == notifier.ReasonThrottled
		return res
	}
	res.ProviderStatus = channels.ShortStatus(err.Error())
	if errors.Is(err, errNoAuth) {
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonBadCredentials
		return res
	}
	if at < stageDot {
		res.Outcome, res.Reason = notifier.OutcomeNotSent, notifier.ReasonUnreachable
		return res
	}
	res.Reason = notifier.ReasonReplyLost
	var ne net.Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout() {
		res.Reason = notifier.ReasonTimeOut
	}
	return res
}

// status is the reply as the server wrote it, on one line.
func status(e *smtp.SMTPError) string {
	message := strings.ReplaceAll(e.Message, "\n", " ")
	if c := e.EnhancedCode; c[0] > 0 {
		return fmt.Sprintf("%d %d.%d.%d %s", e.Code, c[0], c[1], c[2], message)
	}
	return fmt.Sprintf("%d %s", e.Code, message)
}
