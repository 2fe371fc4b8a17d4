package apiaccess

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ForbiddenTimeout is how long an answer 403 that would end something for good is not believed. An API server that has just
// started answers so until it has read the Roles, which takes about a second.
const ForbiddenTimeout = 15 * time.Second

// MayPass reports whether a request that has failed with err since then may have met the 403 of an API server's first moments.
func MayPass(err error, since, now time.Time) bool {
	return apierrors.IsForbidden(err) && now.Before(since.Add(ForbiddenTimeout))
}
