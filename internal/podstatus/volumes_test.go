package podstatus_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harrier-ci/harrier/internal/podstatus"
)

func TestVolumesAreReadFromATerminationMessage(t *testing.T) {
	const cache = `{"volume":1,"name":"cache","bytes":1000,"usedBytes":995}` + "\n"
	for message, want := range map[string][]podstatus.VolumeUse{
		"": nil,
		"no space\n{\"usage\":1,\"oomKills\":0}\n" + cache: {{Name: "cache", Bytes: 1000, UsedBytes: 995}},
		cache + strings.ReplaceAll(cache, "cache", "docker"): {{Name: "cache", Bytes: 1000, UsedBytes: 995},
			{Name: "docker", Bytes: 1000, UsedBytes: 995}},
		`{"volume":2,"name":"cache","bytes":1000,"usedBytes":995}`:   nil,
		`{"volume":1,"name":"cache","bytes":"much","usedBytes":995}`: nil,
		`{"volume":1,"name":"cache","bytes":0,"usedBytes":0}`:        nil,
		`{"volume":1,"name":"cache","bytes":10,"usedBytes":11}`:      nil,
		`{"volume":1,"name":"cache","bytes":10,"usedBytes":-1}`:      nil,
		`{"volume":1,"bytes":10,"usedBytes":1}`:                      nil,
	} {
		if diff := cmp.Diff(want, podstatus.VolumesIn(message)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
	if got := len(podstatus.VolumesIn(strings.Repeat(cache, 1000))); got > 16 {
		t.Errorf("%d volumes were read", got)
	}
	for used, want := range map[int64]int{0: 0, 995: 99, 1000: 100} {
		if got := (podstatus.VolumeUse{Bytes: 1000, UsedBytes: used}).Percent(); got != want {
			t.Errorf("%d of 1000: %d %%, want %d", used, got, want)
		}
	}
	if _, rest := podstatus.UsageIn("no space\n" + cache); rest != "no space" {
		t.Errorf("the reason of a failure is %s", fmt.Sprintf("%q", rest))
	}
	huge := podstatus.VolumeUse{Bytes: 1<<63 - 1, UsedBytes: 1<<63 - 1}
	if got := huge.Percent(); got != 100 {
		t.Errorf("of the largest volume %d %%", got)
	}
}
