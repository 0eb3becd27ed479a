package main

import (
	"encoding/json"
	"net/http"
)

// newControl is the tests' own door: plain HTTP with JSON, one path a wish.
func newControl(g *gate, l *lab) http.Handler {
	mux := http.NewServeMux()
	on := func(path string, answer func(*json.Decoder) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			value, err := answer(json.NewDecoder(r.Body))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value)
		})
	}
	on("/rules", func(in *json.Decoder) (any, error) {
		var rules []*rule
		if err := in.Decode(&rules); err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.rules = rules
		return len(rules), nil
	})
	on("/calls", func(*json.Decoder) (any, error) { // what was called since the last time
		g.mu.Lock()
		defer g.mu.Unlock()
		calls := append([]string{}, g.calls...)
		g.calls = nil
		return calls, nil
	})
	on("/expire", func(*json.Decoder) (any, error) {
		g.expire()
		return true, nil
	})
	on("/logins", func(*json.Decoder) (any, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.logins, nil
	})
	on("/inventory", func(*json.Decoder) (any, error) { return l.inventory(), nil })
	on("/boot", func(in *json.Decoder) (any, error) {
		var boot boot
		if err := in.Decode(&boot); err != nil {
			return nil, err
		}
		l.setBoot(boot)
		return true, nil
	})
	on("/host", func(in *json.Decoder) (any, error) {
		var wish hostWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		return true, l.setHost(wish)
	})
	on("/datastore", func(in *json.Decoder) (any, error) {
		var wish datastoreWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		return true, l.setDatastore(wish)
	})
	on("/figures", func(in *json.Decoder) (any, error) {
		var figures figures
		if err := in.Decode(&figures); err != nil {
			return nil, err
		}
		l.performance.set(figures)
		return true, nil
	})
	on("/vsan", func(in *json.Decoder) (any, error) {
		var wish vsanWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		l.vsan.set(wish)
		return true, nil
	})
	on("/clock", func(in *json.Decoder) (any, error) {
		var wish clockWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		return true, l.setClock(wish)
	})
	on("/event", func(in *json.Decoder) (any, error) {
		var wish eventWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		return true, l.post(wish)
	})
	on("/vm", func(in *json.Decoder) (any, error) { // a stranger's VM, or a copy of one of ours
		var wish vmWish
		if err := in.Decode(&wish); err != nil {
			return nil, err
		}
		return l.addVM(wish)
	})
	return mux
}
