// The flat tensors of flat_tensors.h in the order in which they are made and freed.
#pragma once

#include <optional>

#include "sim/memory/flat_tensors.h"
#include "sim/memory/tensor_recorder.h"

namespace stepcast {

class FlatList {
public:
    // `trained`: all of the stage
    FlatList(TensorRecorder& tensors, const LayerContext& context, const RankWeights& trained);

    void make_weights(Bytes each);
    void make_masters(Bytes each);
    void make_gradients();  // what of them and of their buckets lasts

    // A weight's gradient, unless zero 1 keeps it as it is: then false. `waits`: for what another
    // use of the weights adds.
    bool add(const std::string& what, double elements, bool waits);
    void end_backward();
    // `whole`: gradients that zero 1 has kept. Moments, both together, are made by the first one.
    void update(TensorIds& whole, Bytes moments);

private:
    void open();
    void reduce();
    void take_part();
    TensorId copy_of(double bytes);
    void reduce_whole(TensorIds& whole);

    TensorRecorder& tensors_;
    const LayerContext& c_;
    std::vector<FlatGroup> groups_;
    double part_, bucket_, filled_ = 0;
    Bytes type_;
    int zero_, in_bucket_ = 0;
    bool to_host_;
    TensorIds buckets_, oversized_, waiting_;
    std::optional<TensorId> taken_, accumulated_;  // this rank's part, of this backward and before
};

}  // namespace stepcast
