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

// authorize answers a challenge: Basic with name and password, Bearer with a token that the named service gives for them.
func (s *session) authorize(ctx context.Context, challenge string) error {
	scheme, rest, _ := strings.Cut(challenge, " ")
	switch {
	case strings.EqualFold(scheme, "Basic"):
		if s.credentials.Username == "" {
			return fmt.Errorf("registry %s wants a user and a password; log in with docker login %[1]s", s.target.Host)
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
		return fmt.Errorf("registry %s wants authentication of an unknown kind: %q", s.target.Host, scheme)
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
	defer func() { _ = response.Body.Close() }() // decoded or given up
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

// tokenRequest asks with GET and a password, or with POST and the identity token of an earlier login.
func (s *session) tokenRequest(ctx context.Context, parameters map[string]string) (*http.Request, error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Host == "" {
		return nil, fmt.Errorf("the challenge names no place to get one: %q", parameters["realm"])
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
