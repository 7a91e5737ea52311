// How much a gradient bucket holds: bytes, or weights of any size.
#pragma once

#include "model/base/units.h"

namespace stepcast {

class BucketSize {
public:
    constexpr BucketSize() = default;
    constexpr explicit BucketSize(Bytes bytes) : bytes_(bytes) {}
    static constexpr BucketSize of_weights(double weights) {
        BucketSize size;
        size.weights_ = weights;
        return size;
    }
    // one bucket for all: more weights than any model has
    static constexpr BucketSize one() { return of_weights(1e12); }

    // 0: the size is in bytes
    [[nodiscard]] constexpr double weights() const { return weights_; }
    // of elements of this size
    [[nodiscard]] constexpr Bytes bytes(Bytes element) const {
        return weights_ > 0 ? weights_ * element : bytes_;
    }
    friend constexpr bool operator==(const BucketSize&, const BucketSize&) = default;

private:
    Bytes bytes_{};
    double weights_ = 0;
};

}  // namespace stepcast
