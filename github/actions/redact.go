package actions

import (
	"fmt"
	"strconv"
)

// The types that hold secrets print without them, whatever verb or logger prints them.

// Format prints the kind of credential, without the secret.
func (c Credentials) Format(state fmt.State, _ rune) {
	if c.App != nil {
		c.App.Format(state, 'v')
		return
	}
	fmt.Fprint(state, CredentialPersonalAccessToken)
}

// MarshalLog returns what Format prints, for logr.
func (c Credentials) MarshalLog() any { return fmt.Sprint(c) }

// Format prints the IDs of the app and its installation, without the key.
func (a AppCredentials) Format(state fmt.State, _ rune) {
	fmt.Fprint(state, "GitHub App "+a.ID+", installation "+strconv.FormatInt(a.InstallationID, 10))
}

// MarshalLog returns what Format prints, for logr.
func (a AppCredentials) MarshalLog() any { return fmt.Sprint(a) }

// Format prints the ID and name of the runner, without the JIT config itself.
func (j JITConfig) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "JIT config of runner %d (%s)", j.Runner.ID, j.Runner.Name)
}

// MarshalLog returns what Format prints, for logr.
func (j JITConfig) MarshalLog() any { return fmt.Sprint(j) }
