package actions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":            {nil, false},
		"bad request":         {&Error{StatusCode: 400}, true},
		"wrapped":             {fmt.Errorf("polling: %w", &Error{StatusCode: 404}), true},
		"rate limited":        {&RateLimitedError{Until: time.Now(), Err: &Error{StatusCode: 429}}, true},
		"timeout of a proxy":  {&Error{StatusCode: 408}, false},
		"web page of a proxy": {&Error{StatusCode: 403, webPage: true}, false},
		"server error":        {&Error{StatusCode: 500}, false},
		"network":             {&NetworkError{Err: context.DeadlineExceeded}, false},
		"protocol":            {unexpected(EndpointGetMessage, errors.New("no body")), false},
		"success as web page": {unexpected(EndpointGetMessage, &webPageError{status: 200}), false},
	} {
		if got := IsRejected(test.err); got != test.want {
			t.Errorf("%s: IsRejected = %t, want %t", name, got, test.want)
		}
	}
}
