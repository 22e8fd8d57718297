package thread

import "testing"

func TestMayActOn(t *testing.T) {
	const owner, other = "https://app.example", "https://other.example"
	origin := func(o string) Caller { return Caller{Origin: o, OriginStated: true} }
	verified := func(o string) Caller { return Caller{Origin: o, OriginStated: true, OriginVerified: true} }
	with := func(c Caller) Caller { c.Token = true; return c }
	tests := []struct {
		name   string
		caller Caller
		owner  string
		want   bool
	}{
		{"operator on anything", with(Caller{}), owner, true},
		{"operator on an ownerless thread", with(Caller{}), "", true},
		{"token with an origin is no operator", with(origin(other)), owner, false},
		{"token with an invalid origin is no operator", Caller{Token: true, OriginStated: true}, owner, false},
		{"owner", origin(owner), owner, true},
		{"owner, verified", verified(owner), owner, true},
		{"another origin", origin(other), owner, false},
		{"no origin on an owned thread", Caller{}, owner, false},
		{"invalid origin on an owned thread", Caller{OriginStated: true}, owner, false},
		{"anyone on an ownerless thread", Caller{}, "", true},
		{"stated origin on an ownerless thread", origin(other), "", true},
		{"verified origin on an ownerless thread", verified(other), "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.caller.MayActOn(tt.owner); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}
