package diagnose

import (
	"cmp"
	"slices"
	"time"

	"deadwire/harness/event"
)

// join pairs the two taps' views of each session: by the backend pid; those that
// never learned one by the server's refusal, or by their traffic, since what one tap passed on the other took
// in; and what is left by the order of connection. Cancel requests are no sessions
// and are left out.
func join(views []*view) []*session {
	var sessions []*session
	var backs []*view
	for _, v := range views {
		switch {
		case v.cancel:
		case v.id.Place == event.Back:
			backs = append(backs, v)
		default:
			sessions = append(sessions, &session{number: v.id.N, front: v, shared: map[int]bool{}})
		}
	}
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.front.opened.At, b.front.opened.At) })
	slices.SortFunc(backs, func(a, b *view) int { return cmp.Compare(a.opened.At, b.opened.At) })
	for _, by := range []matcher{samePID, sameRefusal, sameTraffic, inOrder} {
		backs = pair(sessions, backs, by)
	}
	return sessions
}

// joinWithin is how much later than the first tap the second one may accept a
// connection, on a machine that is busy beyond reason.
const joinWithin = time.Minute

// matcher says whether two views can be of one session, and how far apart they
// are: of several that fit, the least counts.
type matcher func(front, back *view) (apart time.Duration, fits bool)

// pair gives each session that has none yet the back view that fits it best, and
// returns the views that are left. Both lists are in the order of connection.
func pair(sessions []*session, backs []*view, by matcher) []*view {
	taken := map[*view]bool{}
	first := 0 // no session from here on can have an earlier view
	for _, s := range sessions {
		for first < len(backs) && backs[first].opened.At < s.front.opened.At {
			first++
		}
		if s.back != nil || s.front.refused() {
			continue
		}
		least := far
		for _, b := range backs[first:] {
			if b.opened.At-s.front.opened.At > min(least, joinWithin) {
				break // whatever comes later lies further apart
			}
			if apart, fits := by(s.front, b); fits && apart < least && !taken[b] {
				s.back, least = b, apart
			}
		}
		if s.back != nil {
			taken[s.back] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(backs), func(b *view) bool { return taken[b] })
}

// samePID: a pid may come again much later, so the nearest connection counts.
func samePID(front, back *view) (time.Duration, bool) {
	return back.opened.At - front.opened.At, front.backendPID() != 0 && front.backendPID() == back.backendPID()
}

// refusalWithin is how long a refusal may take from the tap next to the server to
// the client's, on a machine that is busy.
const refusalWithin = time.Second

// sameRefusal: a tap that found nobody at the server's address passes nothing on, so
// that the traffic of its view says nothing. The way to the client is closed at once.
func sameRefusal(front, back *view) (time.Duration, bool) {
	if !back.refused() || front.ended == nil || front.backendPID() != 0 || front.ended.Ended.BytesToClient > 0 || len(front.closings) == 0 {
		return 0, false
	}
	closed, refused := front.closings[0], back.closings[0]
	apart := closed.At - refused.At
	return back.opened.At - front.opened.At, closed.Closing.From == event.Backend && apart >= 0 && apart < refusalWithin
}

// sameTraffic: clients that die while they connect leave views without a pid. Of
// several with the same bytes those belong together that were connected and ended
// about the same time.
func sameTraffic(front, back *view) (time.Duration, bool) {
	if front.ended == nil || back.ended == nil || !compatible(front, back) {
		return 0, false
	}
	f, b := front.ended.Ended, back.ended.Ended
	if f.BytesToServer != b.BytesToServer || f.BytesToClient != b.BytesToClient {
		return 0, false
	}
	return max(back.opened.At-front.opened.At, (back.ended.At - front.ended.At).Abs()), true
}

// inOrder: the way between the taps lost or kept something, and only the order of
// connection tells.
func inOrder(front, back *view) (time.Duration, bool) {
	return back.opened.At - front.opened.At, compatible(front, back)
}

// compatible reports whether the views may be of one session for all that start-up
// told: the front tap learns the pid after the back tap, or never.
func compatible(front, back *view) bool {
	return front.backendPID() == 0 || front.backendPID() == back.backendPID()
}

// refused reports whether the tap reached nobody, so that there is no other view.
func (v *view) refused() bool {
	return slices.ContainsFunc(v.closings, func(e event.Event) bool { return e.Closing.Manner == event.Refused })
}
