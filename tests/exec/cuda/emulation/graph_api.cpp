// Stream capture and graphs. A launched graph runs every branch at once, each on a thread of its
// own.
#include <algorithm>

#include "tests/exec/cuda/emulation/machine.h"

using namespace emulation;

namespace {

// Whether every node of the capture is an ancestor of the origin's last ones.
bool is_joined(const Capture& capture) {
    std::vector<bool> reached(capture.nodes.size(), false);
    std::vector<std::size_t> open = capture.origin->tips;
    while (!open.empty()) {
        const std::size_t node = open.back();
        open.pop_back();
        if (reached[node]) continue;
        reached[node] = true;
        open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
    }
    return std::all_of(reached.begin(), reached.end(), [](bool one) { return one; });
}

void release(Capture& capture) {
    machine().captures.erase(&capture);
    const std::set<CUstream_st*> streams = std::move(capture.streams);
    capture.origin->tips.clear();
    for (CUstream_st* stream : streams) {
        stream->tips.clear();
        if (stream != capture.origin) stream->capture.reset();
    }
}

// A node continues the chain of the first of its predecessors whose chain ends there.
std::vector<std::vector<std::size_t>> chains_of(const std::vector<Node>& nodes) {
    std::vector<std::vector<std::size_t>> chains;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
        const auto continues = [&](const std::vector<std::size_t>& chain) {
            return std::find(nodes[node].after.begin(), nodes[node].after.end(), chain.back()) !=
                   nodes[node].after.end();
        };
        const auto chain = std::find_if(chains.begin(), chains.end(), continues);
        if (chain == chains.end())
            chains.push_back({node});
        else
            chain->push_back(node);
    }
    return chains;
}

struct Launch {
    CUgraphExec_st& graph;
    std::vector<std::shared_ptr<Moment>> moments;  // of external recordings
    std::vector<bool> done;
    cudaError_t sticky = cudaSuccess;
};

void run_chain(Launch& launch, const std::vector<std::size_t>& chain) {
    Machine& m = machine();
    current_device() = launch.graph.device;
    for (const std::size_t node : chain) {
        const Node& here = launch.graph.nodes[node];
        {
            std::unique_lock lock(m.mutex);
            m.changed.wait(lock, [&] {
                return std::all_of(here.after.begin(), here.after.end(),
                                   [&](std::size_t n) { return launch.done[n]; });
            });
        }
        cudaError_t failed = cudaSuccess;
        if (here.run) {
            try {
                here.run();
            } catch (const Failure& failure) {
                failed = failure.code;
            }
        }
        if (launch.moments[node]) come_late();
        const std::lock_guard lock(m.mutex);
        if (failed != cudaSuccess) launch.sticky = failed;
        if (launch.moments[node]) *launch.moments[node] = {true, now()};
        launch.done[node] = true;
        m.changed.notify_all();
    }
}

void run_graph(CUgraphExec_st& graph, const std::vector<std::shared_ptr<Moment>>& moments) {
    Launch launch{graph, moments, std::vector<bool>(graph.nodes.size(), false)};
    {
        std::vector<std::jthread> threads;
        for (const std::vector<std::size_t>& chain : graph.chains)
            threads.emplace_back(run_chain, std::ref(launch), std::cref(chain));
    }
    const std::lock_guard lock(machine().mutex);
    graph.running = false;
    machine().changed.notify_all();
    if (launch.sticky != cudaSuccess) throw Failure{launch.sticky, "a node of a graph failed"};
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    const std::lock_guard lock(machine().mutex);
    if (stream == nullptr) return note(cudaErrorStreamCaptureUnsupported);
    if (resolve(stream) == nullptr) return note(cudaErrorInvalidResourceHandle);
    if (stream->capture) return note(cudaErrorIllegalState);
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream;
    capture->streams = {stream};
    stream->capture = capture;
    stream->tips.clear();
    machine().captures.insert(capture.get());
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    const std::lock_guard lock(machine().mutex);
    *graph = nullptr;
    if (stream == nullptr || resolve(stream) == nullptr)
        return note(cudaErrorInvalidResourceHandle);
    if (!stream->capture) return note(cudaErrorIllegalState);
    if (stream->capture->origin != stream) {
        stream->capture->valid = false;
        return note(cudaErrorStreamCaptureUnmatched);
    }
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id())
        return note(cudaErrorStreamCaptureWrongThread);
    const bool joined = is_joined(*capture);
    release(*capture);
    stream->capture.reset();
    if (!capture->valid) return note(cudaErrorStreamCaptureInvalidated);
    if (!joined) return note(cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{capture->nodes, stream->device};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long flags) {
    const std::lock_guard lock(machine().mutex);
    if (graph == nullptr || flags != 0) return note(cudaErrorInvalidValue);
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    *made = new CUgraphExec_st{graph->nodes, chains_of(graph->nodes), graph->device, false};
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t) {
    return graph == nullptr ? note(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
// Freed when its last launch is over.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    std::unique_lock lock(machine().mutex);
    machine().changed.wait(lock, [&] { return !graph->running; });
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    std::vector<std::shared_ptr<Moment>> moments(graph->nodes.size());
    {
        std::unique_lock lock(machine().mutex);
        machine().changed.wait(lock, [&] { return !graph->running; });
        CUstream_st* target = resolve(stream);
        if (target == nullptr) return note(cudaErrorInvalidResourceHandle);
        if (target->capture) return note(cudaErrorStreamCaptureUnsupported);
        graph->running = true;
        for (std::size_t node = 0; node < graph->nodes.size(); ++node)
            if (CUevent_st* event = graph->nodes[node].event; event != nullptr) {
                event->moment = moments[node] = std::make_shared<Moment>();
                event->capture.reset();
            }
    }
    return note(enqueue_plain(stream, [graph, moments] { run_graph(*graph, moments); }));
}
}
