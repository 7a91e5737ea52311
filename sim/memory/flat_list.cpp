#include "sim/memory/flat_list.h"

namespace stepcast {

FlatList::FlatList(TensorRecorder& tensors, const LayerContext& c, const RankWeights& trained)
    : tensors_(tensors),
      c_(c),
      groups_(flat_groups(c, trained)),
      part_(part_of(groups_)),
      bucket_(flat_bucket(c, trained)),
      type_(size_of(trained_gradients(c.experiment))),
      zero_(c.experiment.parallelism.zero),
      to_host_(keeps_gradients_on_host(c.experiment)) {}

void FlatList::make_weights(Bytes each) {
    if (each == Bytes(0)) return;
    for (const FlatGroup& group : groups_)
        tensors_.make(TensorKind::weights, "flat weights",
                      (zero_ == 3 ? group.part : group.all) * each.si());
}

void FlatList::make_masters(Bytes each) {
    if (each == Bytes(0)) return;
    for (const FlatGroup& group : groups_)
        for (const double piece : update_pieces(c_.experiment, group.part))
            tensors_.make(TensorKind::optimizer, "flat masters", piece * each.si());
}

void FlatList::make_gradients() {
    if (zero_ < 3) return;
    tensors_.make(TensorKind::exchanged, "bucket", bucket_ * type_.si());
    if (!to_host_) tensors_.make(TensorKind::gradients, "flat gradients", part_ * type_.si());
}

void FlatList::open() {
    if (zero_ == 3 || !buckets_.empty()) return;
    for (int i = 0; i < flat_buckets(c_.experiment); ++i)
        buckets_.push_back(tensors_.make(TensorKind::exchanged, "bucket", bucket_ * type_.si()));
}

bool FlatList::add(const std::string& what, double elements, bool waits) {
    if (waits && zero_ > 1) {
        waiting_.push_back(tensors_.make(TensorKind::work, what, elements * type_.si()));
        return true;
    }
    open();
    if (zero_ == 1) return false;
    const TensorId gradient = tensors_.make(TensorKind::work, what, elements * type_.si());
    if (filled_ + elements > bucket_) reduce();
    filled_ += elements;
    ++in_bucket_;
    if (elements > bucket_)
        oversized_.push_back(gradient);
    else
        tensors_.free(gradient);
    return true;
}

void FlatList::take_part() {
    if (!taken_ && !to_host_)
        taken_ = tensors_.make(TensorKind::gradients, "flat gradients", part_ * type_.si());
}

TensorId FlatList::copy_of(double bytes) {
    return tensors_.make(TensorKind::exchanged, "gradients", bytes,
                         zero_ == 3 ? gather_stream : std::uint8_t{0});
}

void FlatList::reduce() {
    if (in_bucket_ == 0) return;
    TensorIds copy;
    if (in_bucket_ > 1) copy.push_back(copy_of(filled_ * type_.si()));
    if (zero_ == 2) take_part();
    tensors_.free(copy);
    tensors_.free(oversized_);
    filled_ = 0;
    in_bucket_ = 0;
}

void FlatList::end_backward() {
    if (zero_ == 1) return;
    tensors_.free(waiting_);
    reduce();
    tensors_.free(buckets_);
    if (!taken_) return;
    if (accumulated_)
        tensors_.free(*taken_);
    else
        accumulated_ = taken_;
    taken_.reset();
}

// Each goes when it has been copied; the first full bucket makes the part.
void FlatList::reduce_whole(TensorIds& whole) {
    double filled = 0;
    const auto reduce_bucket = [&] {
        const TensorId copy = copy_of(filled);
        take_part();
        tensors_.free(copy);
        filled = 0;
    };
    for (const TensorId id : whole) {
        const auto bytes = static_cast<double>(tensors_.out.tensors[id].bytes);
        if (filled > 0 && filled + bytes > bucket_ * type_.si()) reduce_bucket();
        filled += bytes;
        tensors_.free(id);
    }
    whole.clear();
    reduce_bucket();
    tensors_.free(buckets_);
    accumulated_ = taken_;
    taken_.reset();
}

void FlatList::update(TensorIds& whole, Bytes moments) {
    const Experiment& e = c_.experiment;
    if (zero_ == 1) reduce_whole(whole);
    if (const Bytes norm = norm_copy(c_, part_); norm > Bytes(0))
        tensors_.free(tensors_.make(TensorKind::work, "gradient norm", norm.si()));
    const UpdateCopies copies = update_copies(e);
    for (const FlatGroup& group : groups_)
        for (const double piece : update_pieces(e, group.part)) {
            TensorIds made;
            for (const Bytes each : {copies.flat, copies.wide})
                if (each > Bytes(0))
                    made.push_back(
                        tensors_.make(TensorKind::work, "flat gradients", piece * each.si()));
            if (made.size() > 1) {
                tensors_.free(made.front());
                made.erase(made.begin());
            }
            if (accumulated_ && &group == &groups_.back()) {
                tensors_.free(*accumulated_);
                accumulated_.reset();
            }
            for (int i = 0; i < 2 && tensors_.step == 0 && moments > Bytes(0); ++i)
                tensors_.make(TensorKind::optimizer, "flat moments", piece * 0.5 * moments.si());
            if (update_roots(e) > Bytes(0))
                made.push_back(tensors_.make(TensorKind::work, "roots of moments",
                                             piece * update_roots(e).si()));
            tensors_.free(made);
        }
    if (accumulated_) tensors_.free(*accumulated_);
    accumulated_.reset();
}

}  // namespace stepcast
