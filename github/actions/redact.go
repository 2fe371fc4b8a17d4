package actions

import (
	"fmt"
	"strconv"
)

// The types that hold secrets print without them, whatever verb or logger prints them.

// Format implements fmt.Formatter.
func (c Credentials) Format(state fmt.State, _ rune) {
	if c.App != nil {
		c.App.Format(state, 'v')
		return
	}
	fmt.Fprint(state, CredentialPersonalAccessToken)
}

// MarshalLog implements logr.Marshaler.
func (c Credentials) MarshalLog() any { return fmt.Sprint(c) }

// Format implements fmt.Formatter.
func (a AppCredentials) Format(state fmt.State, _ rune) {
	fmt.Fprint(state, "GitHub App "+a.ID+", installation "+strconv.FormatInt(a.InstallationID, 10))
}

// MarshalLog implements logr.Marshaler.
func (a AppCredentials) MarshalLog() any { return fmt.Sprint(a) }

// Format implements fmt.Formatter.
func (j JITConfig) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "JIT config of runner %d (%s)", j.Runner.ID, j.Runner.Name)
}

// MarshalLog implements logr.Marshaler.
func (j JITConfig) MarshalLog() any { return fmt.Sprint(j) }
