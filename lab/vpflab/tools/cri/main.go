// Cri asks a container runtime for pods as kubelet does, for tests. It replaces crictl, which is not available from the package sources
// of every machine.
//
//	cri run NAME [ANNOTATION=VALUE...]   starts a pod with one container that sleeps; prints the sandbox's ID
//	cri exec NAME COMMAND...             runs a command in it
//	cri ip NAME                          prints the addresses that CNI gave it
//	cri stop NAME                        removes the pod
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	endpoint = "unix:///run/containerd/containerd.sock"
	image    = "localhost/lab:1"
	label    = "lab"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: cri run|exec|ip|stop NAME [...]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	pod := pod{cri.NewRuntimeServiceClient(conn), args[1]}
	switch args[0] {
	case "run":
		return pod.run(ctx, args[2:])
	case "exec":
		return pod.exec(ctx, args[2:])
	case "ip":
		return pod.ip(ctx)
	case "stop":
		return pod.stop(ctx)
	}
	return fmt.Errorf("unknown command %s", args[0])
}

type pod struct {
	runtime cri.RuntimeServiceClient
	name    string
}

func (p pod) run(ctx context.Context, annotations []string) error {
	config := &cri.PodSandboxConfig{
		Metadata:    &cri.PodSandboxMetadata{Name: p.name, Namespace: "default", Uid: p.name},
		Labels:      map[string]string{label: p.name},
		Annotations: map[string]string{},
		Linux:       &cri.LinuxPodSandboxConfig{},
	}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		config.Annotations[key] = value
	}
	sandbox, err := p.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return err
	}
	container, err := p.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId:  sandbox.PodSandboxId,
		SandboxConfig: config,
		Config: &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: "main"},
			Image:    &cri.ImageSpec{Image: image},
			Command:  []string{"/bin/sleep", "1000000"},
			Labels:   map[string]string{label: p.name},
		},
	})
	if err != nil {
		return err
	}
	if _, err := p.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: container.ContainerId}); err != nil {
		return err
	}
	fmt.Println(sandbox.PodSandboxId)
	return nil
}

func (p pod) exec(ctx context.Context, command []string) error {
	filter := &cri.ContainerFilter{LabelSelector: map[string]string{label: p.name}}
	list, err := p.runtime.ListContainers(ctx, &cri.ListContainersRequest{Filter: filter})
	if err != nil {
		return err
	}
	if len(list.Containers) == 0 {
		return fmt.Errorf("pod %s has no container", p.name)
	}
	out, err := p.runtime.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: list.Containers[0].Id, Cmd: command, Timeout: 120})
	if err != nil {
		return err
	}
	os.Stdout.Write(out.Stdout)
	os.Stderr.Write(out.Stderr)
	if out.ExitCode != 0 {
		return fmt.Errorf("%s: exit code %d", command[0], out.ExitCode)
	}
	return nil
}

func (p pod) sandboxes(ctx context.Context) ([]string, error) {
	filter := &cri.PodSandboxFilter{LabelSelector: map[string]string{label: p.name}}
	list, err := p.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("no pod %s", p.name)
	}
	var ids []string
	for _, s := range list.Items {
		ids = append(ids, s.Id)
	}
	return ids, nil
}

func (p pod) ip(ctx context.Context) error {
	ids, err := p.sandboxes(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		status, err := p.runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id})
		if err != nil {
			return err
		}
		fmt.Println(status.Status.GetNetwork().GetIp())
	}
	return nil
}

func (p pod) stop(ctx context.Context) error {
	ids, err := p.sandboxes(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := p.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
			return err
		}
		if _, err := p.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
			return err
		}
	}
	return nil
}
