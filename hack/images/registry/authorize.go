package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

var challengeParameter = regexp.MustCompile(`(\w+)="([^"]*)"`)

// authorize answers a challenge: Basic with user name and password, Bearer with a token from the service that the challenge
// names.
func (s *session) authorize(ctx context.Context, challenge string) error {
	scheme, rest, _ := strings.Cut(challenge, " ")
	switch {
	case strings.EqualFold(scheme, "Basic"):
		if s.credentials.Username == "" {
			return fmt.Errorf("registry %s requires a user name and a password; log in with docker login %[1]s", s.target.Host)
		}
		s.authorization = s.credentials.basic()
		return nil
	case strings.EqualFold(scheme, "Bearer"):
		parameters := map[string]string{}
		for _, match := range challengeParameter.FindAllStringSubmatch(rest, -1) {
			parameters[strings.ToLower(match[1])] = match[2]
		}
		token, err := s.fetchToken(ctx, parameters)
		if err != nil {
			return fmt.Errorf("get a token for registry %s: %w", s.target.Host, err)
		}
		s.authorization = "Bearer " + token
		return nil
	default:
		return fmt.Errorf("registry %s requires an unsupported kind of authentication: %q", s.target.Host, scheme)
	}
}

func (credentials Credentials) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials.Username+":"+credentials.Password))
}

func (s *session) fetchToken(ctx context.Context, parameters map[string]string) (string, error) {
	outgoing, err := s.tokenRequest(ctx, parameters)
	if err != nil {
		return "", err
	}
	response, err := s.client.Do(outgoing)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // nothing depends on it any more
	if response.StatusCode != http.StatusOK {
		return "", &StatusError{Action: "get token", Status: response.Status, Code: response.StatusCode}
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if answer.Token == "" {
		answer.Token = answer.AccessToken
	}
	if answer.Token == "" {
		return "", errors.New("the answer has no token")
	}
	return answer.Token, nil
}

// tokenRequest uses POST with the identity token of an earlier login if there is one, otherwise GET with the password.
func (s *session) tokenRequest(ctx context.Context, parameters map[string]string) (*http.Request, error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Host == "" {
		return nil, fmt.Errorf("the registry's challenge has no valid realm to get one from: %q", parameters["realm"])
	}
	query := realm.Query()
	query.Set("service", parameters["service"])
	query.Set("scope", "repository:"+s.target.Repository+":pull,push")
	if s.credentials.IdentityToken != "" {
		query.Set("grant_type", "refresh_token")
		query.Set("refresh_token", s.credentials.IdentityToken)
		query.Set("client_id", "harrier")
		outgoing, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(query.Encode()))
		if err == nil {
			outgoing.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return outgoing, err
	}
	realm.RawQuery = query.Encode()
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err == nil && s.credentials.Username != "" {
		outgoing.Header.Set("Authorization", s.credentials.basic())
	}
	return outgoing, err
}
