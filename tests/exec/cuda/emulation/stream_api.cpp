// The runtime's calls about streams and events.
#include <cmath>

#include "tests/exec/cuda/emulation/machine.h"

using namespace emulation;

namespace emulation {
void start_worker(CUstream_st* stream);
}

namespace {

cudaError_t sticky_of(int device) {
    return machine().devices[static_cast<std::size_t>(device)].sticky;
}

bool knows(cudaEvent_t event) { return machine().events.contains(event); }

// As a captured event: a point inside the capture, never a moment in time.
cudaError_t record_captured(cudaEvent_t event, CUstream_st* stream) {
    if (!stream->capture->valid) return cudaErrorStreamCaptureInvalidated;
    event->capture = stream->capture;
    event->nodes = stream->tips;
    return cudaSuccess;
}

void finish(const std::shared_ptr<Moment>& moment) {
    const std::lock_guard lock(machine().mutex);
    moment->done = true;
    moment->seconds = now();
    machine().changed.notify_all();
}

cudaError_t record(cudaEvent_t event, cudaStream_t handle, unsigned int flags) {
    std::unique_lock lock(machine().mutex);
    CUstream_st* stream = resolve(handle);
    if (stream == nullptr || !knows(event)) return cudaErrorInvalidResourceHandle;
    if (stream->device != event->device) return cudaErrorInvalidResourceHandle;
    const bool external = (flags & cudaEventRecordExternal) != 0;
    if (external && !stream->capture) return cudaErrorInvalidValue;
    if (stream->capture && !external) return record_captured(event, stream);
    if (external) {
        lock.unlock();
        return enqueue_plain(handle, {}, event);
    }
    const auto moment = std::make_shared<Moment>();
    event->moment = moment;
    event->capture.reset();
    lock.unlock();
    return enqueue_plain(handle, [moment] {
        come_late();
        finish(moment);
    });
}

// The stream joins the capture in which the event lies.
cudaError_t join(CUstream_st* stream, cudaEvent_t event) {
    Capture& capture = *event->capture;
    // that capture is over
    if (!machine().captures.contains(&capture)) return cudaErrorCapturedEvent;
    if (!capture.valid) return cudaErrorStreamCaptureInvalidated;
    if (stream->capture && stream->capture != event->capture) {
        capture.valid = stream->capture->valid = false;
        return cudaErrorStreamCaptureMerge;
    }
    stream->capture = event->capture;
    capture.streams.insert(stream);
    for (const std::size_t node : event->nodes) {
        bool known = false;
        for (const std::size_t tip : stream->tips) known = known || tip == node;
        if (!known) stream->tips.push_back(node);
    }
    return cudaSuccess;
}

cudaError_t wait_done(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Moment>& moment,
                      int device) {
    machine().changed.wait(
        lock, [&] { return !moment || moment->done || sticky_of(device) != cudaSuccess; });
    return sticky_of(device);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    if (flags != cudaStreamNonBlocking)
        return note(cudaErrorInvalidValue);  // others order themselves with the legacy one
    const std::lock_guard lock(machine().mutex);
    *stream = new CUstream_st;
    (*stream)->device = current_device();
    machine().streams.insert(*stream);
    start_worker(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const std::lock_guard lock(machine().mutex);
    if (!machine().streams.erase(stream)) return note(cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        stream->capture->valid = false;
        stream->capture->streams.erase(stream);
        if (stream->capture->origin == stream) machine().captures.erase(stream->capture.get());
    }
    stream->closing = true;
    stream->more.notify_one();
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    const std::lock_guard lock(machine().mutex);
    CUstream_st* stream = resolve(handle);
    if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
    if (const cudaError_t code = capture_problem(stream); code != cudaSuccess) return note(code);
    if (sticky_of(stream->device) != cudaSuccess) return note(sticky_of(stream->device));
    return note(stream->busy || !stream->queue.empty() ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    std::unique_lock lock(machine().mutex);
    CUstream_st* stream = resolve(handle);
    if (stream == nullptr) return note(cudaErrorInvalidResourceHandle);
    if (const cudaError_t code = capture_problem(stream); code != cudaSuccess) return note(code);
    machine().changed.wait(lock, [&] { return !stream->busy && stream->queue.empty(); });
    return note(sticky_of(stream->device));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
    std::unique_lock lock(machine().mutex);
    CUstream_st* stream = resolve(handle);
    if (stream == nullptr || !knows(event)) return note(cudaErrorInvalidResourceHandle);
    if (flags != cudaEventWaitDefault) return note(cudaErrorInvalidValue);
    if (event->capture) return note(join(stream, event));
    if (stream->capture) {  // an edge from outside
        stream->capture->valid = false;
        return note(cudaErrorStreamCaptureIsolation);
    }
    const std::shared_ptr<Moment> moment = event->moment;
    if (!moment) return cudaSuccess;
    lock.unlock();
    return note(enqueue_plain(handle, [moment] {
        std::unique_lock inner(machine().mutex);
        machine().changed.wait(inner, [&] { return moment->done; });
    }));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    constexpr unsigned int known = cudaEventBlockingSync | cudaEventDisableTiming;
    if ((flags & ~known) != 0) return note(cudaErrorInvalidValue);
    const std::lock_guard lock(machine().mutex);
    *event = new CUevent_st;
    (*event)->device = current_device();
    (*event)->flags = flags;
    machine().events.insert(*event);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const std::lock_guard lock(machine().mutex);
    if (!machine().events.erase(event)) return note(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return note(record(event, stream, cudaEventRecordDefault));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    if ((flags & ~static_cast<unsigned int>(cudaEventRecordExternal)) != 0)
        return note(cudaErrorInvalidValue);
    return note(record(event, stream, flags));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const std::lock_guard lock(machine().mutex);
    if (!knows(event)) return note(cudaErrorInvalidResourceHandle);
    if (event->capture) {
        event->capture->valid = false;
        return note(cudaErrorCapturedEvent);
    }
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    if (sticky_of(event->device) != cudaSuccess) return note(sticky_of(event->device));
    return note(event->moment && !event->moment->done ? cudaErrorNotReady : cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    std::unique_lock lock(machine().mutex);
    if (!knows(event)) return note(cudaErrorInvalidResourceHandle);
    if (event->capture) {
        event->capture->valid = false;
        return note(cudaErrorCapturedEvent);
    }
    if (const cudaError_t code = unsafe_call(); code != cudaSuccess) return note(code);
    const std::shared_ptr<Moment> moment = event->moment;
    return note(wait_done(lock, moment, event->device));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    const std::lock_guard lock(machine().mutex);
    if (!knows(begin) || !knows(end)) return note(cudaErrorInvalidResourceHandle);
    if (begin->device != end->device) return note(cudaErrorInvalidResourceHandle);
    for (const cudaEvent_t event : {begin, end}) {
        if ((event->flags & cudaEventDisableTiming) != 0 || event->capture || !event->moment)
            return note(cudaErrorInvalidResourceHandle);
        if (!event->moment->done) return note(cudaErrorNotReady);
    }
    // "With a resolution of around 0.5 microseconds".
    *milliseconds =
        static_cast<float>(std::round((end->moment->seconds - begin->moment->seconds) * 2e6) / 2e3);
    return cudaSuccess;
}
}
