package sqlite

import "time"

// never stands for a time that was not set where a later one is meant.
const never = int64(1) << 62

// micros is how times are stored; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 || us == never {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// orNever is micros for an expiry: one that is not set never comes.
func orNever(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return t.UnixMicro()
}

func timePtr(us int64) *time.Time {
	if us == 0 || us == never {
		return nil
	}
	t := fromMicros(us)
	return &t
}
