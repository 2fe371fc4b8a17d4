package actions

import (
	"errors"
	"testing"
)

// This test stands inside of the package, because a fuzzer that sent its messages through a server would try a
// hundredth of them.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(
		`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},` +
			`"body":"[{\"messageType\":\"JobStarted\"}]"}`,
	))
	f.Add([]byte(`{"messageId":5,"messageType":"RunnerScaleSetJobMessages","statistics":{},"body":"[null,1,{},[]]"}`))
	f.Add([]byte(`{"messageId":1e3,"body":{}}`))
	f.Add([]byte("null"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		message, err := parseMessage(text)
		var malformed *MalformedMessageError
		switch {
		case err == nil && message == nil:
			t.Error("no message and no error")
		case errors.As(err, &malformed):
			message = malformed.Message
		case err != nil && !errors.Is(err, ErrTruncated):
			t.Errorf("untyped error %v", err)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without text")
		}
		if message == nil {
			return
		}
		read := len(message.JobsAvailable) + len(message.JobsAssigned) + len(message.JobsStarted) +
			len(message.JobsCompleted) + len(message.Unknown)
		if read > message.Entries || (err == nil && read != message.Entries) {
			t.Errorf("%d entries read of %d", read, message.Entries)
		}
	})
}
