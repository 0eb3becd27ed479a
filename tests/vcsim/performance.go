package main

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const realtimeSeconds = 20

// figures are the known values: host name, counter (`cpu.usage.average`), raw value of each sample.
//
// A sample's value is Values[host][counter][n % len], n its number since the epoch in steps of 20 s.
// Only the last hour exists. Ahead is how far the vCenter's clock is ahead of ours, in seconds.
type figures struct {
	Values map[string]map[string][]int64 `json:"values"`
	Ahead  float64                       `json:"ahead"`
}

// performance answers with the known figures where there are some, else as the simulator does.
type performance struct {
	*simulator.PerformanceManager
	lab      *lab
	counters map[int32]string

	mu      sync.Mutex
	figures figures
}

func newPerformance(l *lab) *performance {
	ref := *l.ctx.Map.Get(simulatorRoot).(*simulator.ServiceInstance).Content.PerfManager
	p := &performance{
		PerformanceManager: l.ctx.Map.Get(ref).(*simulator.PerformanceManager),
		lab:                l, counters: map[int32]string{},
	}
	for _, info := range p.PerfCounter {
		p.counters[info.Key] = info.GroupInfo.GetElementDescription().Key + "." +
			info.NameInfo.GetElementDescription().Key + "." + string(info.RollupType)
	}
	l.ctx.Map.Put(p)
	return p
}

var simulatorRoot = types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}

func (p *performance) set(f figures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.figures = f
}

// QueryPerf answers from the known figures.
func (p *performance) QueryPerf(ctx *simulator.Context, req *types.QueryPerf) soap.HasFault {
	p.mu.Lock()
	known := p.figures
	p.mu.Unlock()
	if len(known.Values) == 0 {
		return p.PerformanceManager.QueryPerf(ctx, req)
	}
	answer := &types.QueryPerfResponse{}
	for _, spec := range req.QuerySpec {
		answer.Returnval = append(answer.Returnval, p.entity(spec, known))
	}
	return &methods.QueryPerfBody{Res: answer}
}

func (p *performance) entity(spec types.PerfQuerySpec, known figures) *types.PerfEntityMetric {
	metric := &types.PerfEntityMetric{PerfEntityMetricBase: types.PerfEntityMetricBase{Entity: spec.Entity}}
	host, ok := p.lab.ctx.Map.Get(spec.Entity).(*simulator.HostSystem)
	if !ok || (spec.IntervalId != 0 && spec.IntervalId != realtimeSeconds) {
		return metric
	}
	values := known.Values[host.Name]
	ticks := p.ticks(spec, known)
	for _, tick := range ticks {
		metric.SampleInfo = append(metric.SampleInfo, types.PerfSampleInfo{
			Timestamp: time.Unix(tick*realtimeSeconds, 0).UTC(), Interval: realtimeSeconds,
		})
	}
	for _, id := range spec.MetricId {
		series, ok := values[p.counters[id.CounterId]]
		if !ok || len(series) == 0 || id.Instance != "" {
			continue
		}
		line := &types.PerfMetricIntSeries{PerfMetricSeries: types.PerfMetricSeries{Id: id}}
		for _, tick := range ticks {
			line.Value = append(line.Value, series[tick%int64(len(series))])
		}
		metric.Value = append(metric.Value, line)
	}
	return metric
}

// ticks are the samples after the start up to the end, in steps since the epoch.
func (p *performance) ticks(spec types.PerfQuerySpec, known figures) []int64 {
	now := time.Now().Add(time.Duration(known.Ahead * float64(time.Second)))
	start, end := now.Add(-time.Hour), now
	if spec.StartTime != nil && spec.StartTime.After(start) {
		start = *spec.StartTime
	}
	if spec.EndTime != nil && spec.EndTime.Before(end) {
		end = *spec.EndTime
	}
	var ticks []int64
	for tick := start.Unix()/realtimeSeconds + 1; tick*realtimeSeconds <= end.Unix(); tick++ {
		ticks = append(ticks, tick)
	}
	if limit := int(spec.MaxSample); limit > 0 && len(ticks) > limit {
		ticks = ticks[len(ticks)-limit:]
	}
	return ticks
}
