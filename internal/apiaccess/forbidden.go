package apiaccess

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ForbiddenTimeout passes with 403 as the only answer before that ends something that is not tried again. An API server
// that has just started answers 403 until it has loaded the Roles, which takes about a second.
const ForbiddenTimeout = 15 * time.Second

// MayPass reports whether err, with which a request has failed since the given time, may be the 403 of an API server
// that has just started.
func MayPass(err error, since, now time.Time) bool {
	return apierrors.IsForbidden(err) && now.Before(since.Add(ForbiddenTimeout))
}
