package fakegithub

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Resources of the REST API whose use GitHub limits, and the number of uses by a credential in an hour.
const (
	coreResource         = "core"
	coreLimit            = 5000
	registrationResource = "actions_runner_registration"
	registrationLimit    = 10000

	limitWindow = time.Hour
)

// allowance counts what a credential has used of a resource in the window that ends at reset.
type allowance struct {
	used  int
	reset time.Time
}

// spender is a credential with an allowance of a resource.
type spender struct{ credential, resource string }

// spend notes a request of a credential. It returns the headers that tell the client where it stands; allowed is false
// where the limit is used up.
func (t *tokens) spend(now time.Time, who spender, limit int) (header map[string]string, allowed bool) {
	maps.DeleteFunc(t.spent, func(_ spender, a allowance) bool { return !now.Before(a.reset) })
	a, known := t.spent[who]
	if !known {
		a.reset = now.Add(limitWindow)
	}
	allowed = a.used < limit
	if allowed {
		a.used++
	}
	t.spent[who] = a
	return map[string]string{
		"X-RateLimit-Limit":     strconv.Itoa(limit),
		"X-RateLimit-Used":      strconv.Itoa(a.used),
		"X-RateLimit-Remaining": strconv.Itoa(limit - a.used),
		"X-RateLimit-Reset":     strconv.FormatInt(a.reset.Unix(), 10),
		"X-RateLimit-Resource":  who.resource,
	}, allowed
}

// limited carries out a call of the REST API if the credential may make it, and adds to the answer what is left of the
// limit.
func (t *tokens) limited(now time.Time, who spender, limit int, carryOut func() reply) reply {
	header, allowed := t.spend(now, who, limit)
	rep := restError(http.StatusForbidden, "API rate limit exceeded. Please wait until it is reset.")
	if allowed {
		rep = carryOut()
	}
	maps.Copy(header, rep.header)
	rep.header = header
	return rep
}

// Secondary limits of requests that create content, as GitHub documents them.
const (
	contentsPerMinute = 80
	contentsPerHour   = 500
)

// mayCreate notes that an App, or a person's token, creates content, and tells whether the secondary limits allow it.
func (t *tokens) mayCreate(now time.Time, who string) bool {
	made := slices.DeleteFunc(t.created[who], func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	lately := 0
	for _, at := range made {
		if now.Sub(at) < time.Minute {
			lately++
		}
	}
	allowed := len(made) < contentsPerHour && lately < contentsPerMinute
	if allowed {
		made = append(made, now)
	}
	t.created[who] = made
	return allowed
}
