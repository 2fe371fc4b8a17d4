package fakegithub

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/harrier-ci/harrier/internal/fakegithub/state"
)

// scaleSetRequest is the body of create and update. Clients send zero values for
// what they do not mean, so those count as absent. Unknown keys are ignored.
type scaleSetRequest struct {
	Name          string              `json:"name"`
	RunnerGroupID int                 `json:"runnerGroupId"`
	Labels        []state.Label       `json:"labels"`
	RunnerSetting state.RunnerSetting `json:"RunnerSetting"` // matched in any case
}

func (r *request) scaleSetSpec() (state.ScaleSetSpec, error) {
	var body scaleSetRequest
	if err := json.Unmarshal(r.body, &body); err != nil {
		return state.ScaleSetSpec{}, err
	}
	return state.ScaleSetSpec{
		Name: body.Name, RunnerGroupID: body.RunnerGroupID, Labels: body.Labels, Setting: body.RunnerSetting,
	}, nil
}

// scaleSetAnswer is a scale set as the service writes it.
type scaleSetAnswer struct {
	ID              int                 `json:"id"`
	Name            string              `json:"name"`
	RunnerGroupID   int                 `json:"runnerGroupId"`
	RunnerGroupName string              `json:"runnerGroupName"`
	Labels          []state.Label       `json:"labels"`
	RunnerSetting   state.RunnerSetting `json:"runnerSetting"`
	CreatedOn       state.WireTime      `json:"createdOn"`
	JITConfigURL    string              `json:"runnerJitConfigUrl"`
	Statistics      state.Statistics    `json:"statistics"`
}

func (s *Server) describeScaleSet(r *request, set *state.ScaleSet) scaleSetAnswer {
	url := s.publicURL(r) + "/services/" + s.tokens.serviceName(set.Scope.ID) +
		"/_apis/runtime/runnerscalesets/" + strconv.Itoa(set.ID) + "/generatejitconfig"
	return scaleSetAnswer{
		ID: set.ID, Name: set.Name, RunnerGroupID: set.GroupID, RunnerGroupName: set.GroupName,
		Labels: set.Labels, RunnerSetting: set.Setting, CreatedOn: state.WireTime(set.CreatedOn),
		JITConfigURL: url, Statistics: s.state.Statistics(set),
	}
}

// scaleSetReply answers one scale set or the refusal.
func (s *Server) scaleSetReply(r *request, set *state.ScaleSet, err error) reply {
	if err != nil {
		return errorReply(err)
	}
	return jsonReply(http.StatusOK, s.describeScaleSet(r, set))
}

func findScaleSets(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	query := r.URL.Query()
	group := 0
	if text := query.Get("runnerGroupId"); text != "" {
		id, err := strconv.Atoi(text)
		if err != nil {
			return errorReply(err)
		}
		group = id
	}
	answers := []scaleSetAnswer{}
	for _, set := range s.state.ScaleSets(scope, group, query.Get("name")) {
		answers = append(answers, s.describeScaleSet(r, set))
	}
	return listReply(answers)
}

func getScaleSet(s *Server, _ time.Time, scope *state.Scope, r *request) reply {
	set, err := s.state.ScaleSet(scope, pathID(r))
	return s.scaleSetReply(r, set, err)
}

func createScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	spec, err := r.scaleSetSpec()
	if err != nil {
		return errorReply(err)
	}
	set, err := s.state.CreateScaleSet(now, scope, spec)
	return s.scaleSetReply(r, set, err)
}

func updateScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	spec, err := r.scaleSetSpec()
	if err != nil {
		return errorReply(err)
	}
	set, err := s.state.UpdateScaleSet(now, scope, pathID(r), spec)
	return s.scaleSetReply(r, set, err)
}

func deleteScaleSet(s *Server, now time.Time, scope *state.Scope, r *request) reply {
	if err := s.state.DeleteScaleSet(now, scope, pathID(r), true); err != nil {
		return errorReply(err)
	}
	return emptyReply(http.StatusNoContent)
}

func findRunnerGroups(s *Server, _ time.Time, _ *state.Scope, r *request) reply {
	return listReply(s.state.RunnerGroups(r.URL.Query().Get("groupName")))
}
