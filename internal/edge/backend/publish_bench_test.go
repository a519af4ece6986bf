package backend

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/history"
	"sluice/internal/edge/server"
)

// BenchmarkPublish measures what publishing costs the loop: a View of eight VMs is recorded and published, with that many
// event streams open over TCP, at a thousand Views per second.
func BenchmarkPublish(b *testing.B) {
	for _, listeners := range []int{0, 50} {
		b.Run(fmt.Sprintf("listeners=%d", listeners), func(b *testing.B) {
			back := quiet(b, "", noon)
			past := history.New()
			back.Seen = past.Add
			s, err := server.New(server.Options{Backend: back, Listen: "127.0.0.1:0", History: past})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			for range listeners {
				resp, err := http.Get("http://" + s.Addrs()[0].String() + "/v1/events")
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp, err)
				}
				defer resp.Body.Close()
				go drain(resp)
			}
			v := edgetest.View()
			took, n := time.Duration(0), 0
			for b.Loop() {
				next := *v
				s := *v.Snapshot
				s.Time = s.Time.Add(time.Duration(n) * time.Second)
				next.Snapshot = &s
				begun := time.Now()
				back.Publish(&next)
				took += time.Since(begun)
				n++
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/publish")
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}

func drain(resp *http.Response) {
	buf := make([]byte, 1024)
	for {
		if _, err := resp.Body.Read(buf); err != nil {
			return
		}
	}
}
