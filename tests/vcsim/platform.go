package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/simulator"
	vimmethods "github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vsan"
	"github.com/vmware/govmomi/vsan/methods"
	vsantypes "github.com/vmware/govmomi/vsan/types"
)

// vsanWish is what vSAN is to answer. Sizes in bytes; Tests maps a health test's name to its light.
//
// Figures maps an entity (`cluster-domclient`) to labels and the values of its samples, the first
// at Since (seconds since the epoch), one each five minutes; Off: the performance service refuses.
type vsanWish struct {
	Groups  int                             `json:"groups"` // disk groups a host
	Cache   int64                           `json:"cache"`  // of each disk group
	Hybrid  bool                            `json:"hybrid"`
	Dedupe  bool                            `json:"dedupe"`
	Health  string                          `json:"health"`
	Tests   map[string]string               `json:"tests"`
	Bytes   int64                           `json:"bytes"`
	Objects int64                           `json:"objects"`
	Witness string                          `json:"witness"`
	Off     bool                            `json:"off"`
	Since   int64                           `json:"since"`
	Figures map[string]map[string][]float64 `json:"figures"`
}

type vsanState struct {
	mu   sync.Mutex
	wish vsanWish
}

func (s *vsanState) set(wish vsanWish) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wish = wish
}

func (s *vsanState) get() vsanWish {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wish
}

func newVsanState() *vsanState {
	return &vsanState{wish: vsanWish{Groups: 2, Cache: 800 * gib, Health: "green"}}
}

// register puts vSAN's other services beside its configuration.
func (s *vsanState) register(registry *simulator.Registry) {
	registry.Put(&vsanDisks{Self: types.ManagedObjectReference{
		Type: "VimClusterVsanVcDiskManagementSystem", Value: "vsan-disk-management-system"}, state: s})
	registry.Put(&vsanHealth{Self: types.ManagedObjectReference{
		Type: "VsanVcClusterHealthSystem", Value: "vsan-cluster-health-system"}, state: s})
	registry.Put(&vsanObjects{Self: types.ManagedObjectReference{
		Type: "VsanObjectSystem", Value: "vsan-cluster-object-system"}, state: s})
	registry.Put(&vsanStretched{Self: types.ManagedObjectReference{
		Type: "VimClusterVsanVcStretchedClusterSystem", Value: "vsan-stretched-cluster-system"}, state: s})
	registry.Put(&vsanPerformance{Self: vsan.VsanPerformanceManagerInstance, state: s})
}

type vsanDisks struct {
	Self  types.ManagedObjectReference
	state *vsanState
}

func (d *vsanDisks) Reference() types.ManagedObjectReference { return d.Self }

func (d *vsanDisks) QueryDiskMappings(*vsantypes.QueryDiskMappings) soap.HasFault {
	wish := d.state.get()
	answer := &vsantypes.QueryDiskMappingsResponse{}
	for i := 0; i < wish.Groups; i++ {
		disk := types.HostScsiDisk{Capacity: types.HostDiskDimensionsLba{BlockSize: 512, Block: wish.Cache / 512}}
		disk.CanonicalName = fmt.Sprintf("t10.cache%d", i)
		answer.Returnval = append(answer.Returnval, vsantypes.VimVsanHostDiskMapInfoEx{
			Mapping:    types.VsanHostDiskMapping{Ssd: disk},
			IsMounted:  true,
			IsAllFlash: !wish.Hybrid,
		})
	}
	return &methods.QueryDiskMappingsBody{Res: answer}
}

type vsanHealth struct {
	Self  types.ManagedObjectReference
	state *vsanState
}

func (h *vsanHealth) Reference() types.ManagedObjectReference { return h.Self }

func (h *vsanHealth) VsanQueryVcClusterHealthSummary(*vsantypes.VsanQueryVcClusterHealthSummary) soap.HasFault {
	wish := h.state.get()
	group := vsantypes.VsanClusterHealthGroup{GroupId: "g", GroupName: "made up", GroupHealth: wish.Health}
	for name, light := range wish.Tests {
		group.GroupTests = append(group.GroupTests, vsantypes.VsanClusterHealthTest{TestName: name, TestHealth: light})
	}
	return &methods.VsanQueryVcClusterHealthSummaryBody{Res: &vsantypes.VsanQueryVcClusterHealthSummaryResponse{
		Returnval: vsantypes.VsanClusterHealthSummary{
			OverallHealth: wish.Health, Groups: []vsantypes.VsanClusterHealthGroup{group},
		},
	}}
}

type vsanObjects struct {
	Self  types.ManagedObjectReference
	state *vsanState
}

func (o *vsanObjects) Reference() types.ManagedObjectReference { return o.Self }

func (o *vsanObjects) QuerySyncingVsanObjectsSummary(*vsantypes.QuerySyncingVsanObjectsSummary) soap.HasFault {
	wish := o.state.get()
	return &methods.QuerySyncingVsanObjectsSummaryBody{Res: &vsantypes.QuerySyncingVsanObjectsSummaryResponse{
		Returnval: vsantypes.VsanHostVsanObjectSyncQueryResult{
			TotalBytesToSync: wish.Bytes, TotalObjectsToSync: wish.Objects,
		},
	}}
}

type vsanStretched struct {
	Self  types.ManagedObjectReference
	state *vsanState
}

func (v *vsanStretched) Reference() types.ManagedObjectReference { return v.Self }

func (v *vsanStretched) VSANVcGetWitnessHosts(*vsantypes.VSANVcGetWitnessHosts) soap.HasFault {
	wish := v.state.get()
	answer := &vsantypes.VSANVcGetWitnessHostsResponse{}
	if wish.Witness != "" {
		answer.Returnval = []vsantypes.VimClusterVSANWitnessHostInfo{{
			NodeUuid: "52-witness", UnicastAgentAddr: wish.Witness,
		}}
	}
	return &methods.VSANVcGetWitnessHostsBody{Res: answer}
}

type vsanPerformance struct {
	Self  types.ManagedObjectReference
	state *vsanState
}

func (p *vsanPerformance) Reference() types.ManagedObjectReference { return p.Self }

// VsanPerfQueryPerf answers from the wished figures, cut to the asked time.
func (p *vsanPerformance) VsanPerfQueryPerf(req *vsantypes.VsanPerfQueryPerf) soap.HasFault {
	wish := p.state.get()
	body := &methods.VsanPerfQueryPerfBody{}
	if wish.Off {
		body.Fault_ = simulator.Fault("entityRefId", &types.InvalidArgument{InvalidProperty: "entityRefId"})
		return body
	}
	body.Res = &vsantypes.VsanPerfQueryPerfResponse{}
	for _, spec := range req.QuerySpecs {
		entity := strings.TrimSuffix(spec.EntityRefId, ":*")
		labels, ok := wish.Figures[entity]
		if !ok {
			continue
		}
		body.Res.Returnval = append(body.Res.Returnval, perfCSV(entity, labels, spec, wish.Since))
	}
	return body
}

func perfCSV(
	entity string, labels map[string][]float64, spec vsantypes.VsanPerfQuerySpec, since int64,
) vsantypes.VsanPerfEntityMetricCSV {
	metric := vsantypes.VsanPerfEntityMetricCSV{EntityRefId: entity + ":52a1"}
	for label, values := range labels {
		var stamps, numbers []string
		for i, value := range values {
			at := time.Unix(since+int64(i)*300, 0).UTC()
			if spec.StartTime != nil && at.Before(*spec.StartTime) || spec.EndTime != nil && at.After(*spec.EndTime) {
				continue
			}
			stamps = append(stamps, at.Format("2006-01-02 15:04:05"))
			numbers = append(numbers, fmt.Sprint(value))
		}
		metric.SampleInfo = strings.Join(stamps, ",")
		metric.Value = append(metric.Value, vsantypes.VsanPerfMetricSeriesCSV{
			MetricId: vsantypes.VsanPerfMetricId{Label: label}, Values: strings.Join(numbers, ","),
		})
	}
	return metric
}

// PbmQueryDefaultRequirementProfile knows a vSAN datastore's default; others have none.
func (p *policies) PbmQueryDefaultRequirementProfile(
	req *pbmtypes.PbmQueryDefaultRequirementProfile,
) soap.HasFault {
	body := &pbmmethods.PbmQueryDefaultRequirementProfileBody{
		Res: &pbmtypes.PbmQueryDefaultRequirementProfileResponse{},
	}
	ref := types.ManagedObjectReference{Type: "Datastore", Value: req.Hub.HubId}
	store, ok := p.lab.ctx.Map.Get(ref).(*simulator.Datastore)
	if ok && store.Summary.Type == "vsan" {
		body.Res.Returnval = &pbmtypes.PbmProfileId{UniqueId: "aa6d5a82-1c88-45da-85d3-3d74b91a5bad"}
	}
	return body
}

// withVersions answers which vSAN API there is as a vCenter 8 does; the simulator's answer is older
// than half of what it is asked.
func withVersions(next http.Handler) http.Handler {
	const versions = `<?xml version="1.0" encoding="UTF-8"?>
<namespaces version="1.0"><namespace><name>urn:vsan</name><version>8.0.0.4</version>
<priorVersions><version>8.0.0.3</version><version>6.7</version></priorVersions></namespace></namespaces>`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sdk/vsanServiceVersions.xml" {
			_, _ = io.WriteString(w, versions)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clockWish sets how far a host's clock is ahead of ours, in seconds, and whether its SSH runs.
type clockWish struct {
	Name  string  `json:"name"`
	Ahead float64 `json:"ahead"`
	SSH   *bool   `json:"ssh"`
}

// dateTime stands in for a host's clock, which the simulator lacks.
type dateTime struct {
	Self types.ManagedObjectReference

	mu    sync.Mutex
	ahead float64
}

func (d *dateTime) Reference() types.ManagedObjectReference { return d.Self }

// QueryDateTime is the host's time of day.
func (d *dateTime) QueryDateTime(*types.QueryDateTime) soap.HasFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().Add(time.Duration(d.ahead * float64(time.Second))).UTC()
	return &vimmethods.QueryDateTimeBody{Res: &types.QueryDateTimeResponse{Returnval: now}}
}

// wind gives every host a clock.
func (l *lab) wind() {
	l.clocks = map[string]*dateTime{}
	for _, entity := range l.ctx.Map.All("HostSystem") {
		host := entity.(*simulator.HostSystem)
		clock := &dateTime{Self: types.ManagedObjectReference{
			Type: "HostDateTimeSystem", Value: "dateTimeSystem-" + host.Self.Value,
		}}
		l.ctx.Map.Put(clock)
		l.clocks[host.Name] = clock
		l.ctx.WithLock(host, func() { host.ConfigManager.DateTimeSystem = &clock.Self })
	}
}

func (l *lab) setClock(wish clockWish) error {
	clock, ok := l.clocks[wish.Name]
	if !ok {
		return fmt.Errorf("no host %q", wish.Name)
	}
	clock.mu.Lock()
	clock.ahead = wish.Ahead
	clock.mu.Unlock()
	host := l.byName("HostSystem", wish.Name).(*simulator.HostSystem)
	if wish.SSH != nil {
		l.ctx.WithLock(host, func() { setSSH(host, *wish.SSH) })
	}
	return nil
}

// setSSH changes a copy: the simulator's hosts share one list of services.
func setSSH(host *simulator.HostSystem, running bool) {
	config := *host.Config
	services := types.HostServiceInfo{}
	if config.Service != nil {
		services.Service = append(services.Service, config.Service.Service...)
	}
	for i := range services.Service {
		if services.Service[i].Key == "TSM-SSH" {
			services.Service[i].Running = running
		}
	}
	config.Service = &services
	host.Config = &config
}
