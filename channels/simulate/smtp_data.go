package simulate

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"strconv"
	"strings"
	"time"
)

var errTooBig = errors.New("the mail is too big")

// data reads a mail. It counts once the final dot has been read.
func (c *smtpConn) data() error {
	if len(c.rcpts) == 0 {
		return c.reply("503 5.5.1 RCPT first")
	}
	if f := c.take(StageData, c.rcpts[0], ""); f != nil {
		return c.replyFault(f)
	}
	if err := c.reply("354 End data with <CR><LF>.<CR><LF>"); err != nil {
		return err
	}
	m := &mail{}
	if err := c.readMail(m); errors.Is(err, errTooBig) {
		c.reset()
		return c.reply("552 5.3.4 Message too big or line too long")
	} else if err != nil {
		return err
	}
	rcpts := c.rcpts
	c.reset()
	return c.finish(m, rcpts)
}

// mail is what is kept of a message.
type mail struct {
	hash                                  [32]byte
	messageID, delivery, attempt, subject string
	size                                  int
}

func (m *mail) header(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "message-id":
		m.messageID = value
	case "x-delivery":
		m.delivery = value
	case "x-attempt":
		m.attempt = value
	case "subject":
		m.subject = value
	}
}

// readMail reads to the final dot (RFC 5321 section 4.5.2). A mail that is too
// big is read to its end all the same.
func (c *smtpConn) readMail(m *mail) error {
	sum := sha256.New()
	inHeader, tooBig, subject := true, false, false
	for {
		line, err := c.contentLine()
		switch {
		case errors.Is(err, errTooBig):
			tooBig = true
			continue
		case err != nil:
			return err
		case bytes.Equal(line, []byte(".\r\n")):
			sum.Sum(m.hash[:0])
			if tooBig || m.size > maxMail {
				return errTooBig
			}
			return nil
		}
		line = bytes.TrimPrefix(line, []byte("."))
		m.size += len(line)
		text := strings.TrimRight(string(line[:min(len(line), maxMailLine)]), "\r\n")
		if inHeader {
			if subject = subject && strings.HasPrefix(text, " "); subject {
				m.subject += text
			} else {
				m.header(text)
				subject = strings.HasPrefix(strings.ToLower(text), "subject:")
			}
			if text == "" {
				inHeader = false
				if c.take(StageContent, c.rcpts[0], m.delivery) != nil {
					return errEnd
				}
			} else if strings.HasPrefix(strings.ToLower(text), "x-attempt:") {
				continue
			}
		}
		sum.Write(line)
	}
}

// contentLine reads one line with its end. A longer one than mail may have is
// skipped: errTooBig.
func (c *smtpConn) contentLine() ([]byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(smtpIdle)); err != nil {
		return nil, err
	}
	line, err := c.in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		if _, err = c.in.ReadSlice('\n'); err == nil {
			return nil, errTooBig
		}
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && len(line) > maxMailLine {
		return nil, errTooBig
	}
	return line, err
}

// finish writes one line of the log per recipient and answers.
func (c *smtpConn) finish(m *mail, rcpts []string) error {
	f := c.take(StageDot, rcpts[0], m.delivery)
	took, may, answer := true, true, "250"
	if f != nil {
		took, may, answer = f.dotEffect()
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.subject)
	if err != nil {
		subject = m.subject
	}
	fence, _ := strconv.ParseInt(m.attempt, 10, 64) // absent from other senders: 0
	for _, r := range rcpts {
		err := c.s.srv.journal.write(&Entry{Time: time.Now(), Channel: channelEmail, Account: c.user, Address: r,
			Delivery: m.delivery, Fence: fence, EffectKey: strings.Trim(m.messageID, "<>"), BodyHash: hex.EncodeToString(m.hash[:]),
			Title: subject, Answer: answer, TookEffect: took, MayTakeEffect: may})
		if err != nil {
			return err
		}
	}
	const ok = "250 2.0.0 Ok: queued"
	if f == nil {
		return c.reply(ok)
	}
	return c.failDot(f, ok)
}

// dotEffect is what the log says of a mail that met the fault.
func (f *Fault) dotEffect() (took, may bool, answer string) {
	switch f.Kind {
	case FaultStatus, FaultReply:
		// 4yz after the dot is the server's word that it did not take the mail
		// and that it may be sent again (RFC 5321 section 4.2.1).
		return f.effect(f.Status/100 == 2), f.Status/100 != 4, f.smtpReply()
	case FaultDelay, FaultSlowDot, FaultAcceptThenClose:
		return f.effect(true), true, "250"
	case FaultTruncate:
		return f.effect(true), true, "250 truncated"
	case FaultHang, FaultDropReply, FaultDropBefore, FaultDeadToken, FaultRedirect, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultReceipt:
	}
	return f.effect(true), true, "none"
}

func (c *smtpConn) failDot(f *Fault, ok string) error {
	switch f.Kind {
	case FaultStatus, FaultReply:
		return c.replyFault(f)
	case FaultDelay, FaultSlowDot:
		if !c.s.srv.sleep(f.Delay) {
			return errEnd
		}
		return c.reply(ok)
	case FaultHang:
		c.s.srv.sleep(-1)
	case FaultTruncate:
		_, err := io.WriteString(c.nc, "25")
		return errors.Join(err, errEnd)
	case FaultAcceptThenClose:
		return errors.Join(c.reply(ok), errEnd)
	case FaultDropReply, FaultDropBefore, FaultDeadToken, FaultRedirect, FaultRSTStream, FaultGoAway,
		FaultCloseBeforeDot, FaultCloseAfterDot, FaultReceipt:
	}
	return errEnd
}
