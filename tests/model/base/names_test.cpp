#include <catch2/catch.hpp>

#include "model/base/dtype.h"
#include "model/cluster.h"
#include "model/parallelism.h"
#include "model/routing.h"
#include "model/workload.h"
#include "tests/model/files.h"

using namespace stepcast;

TEST_CASE("the nearest valid word is proposed, a far one is not") {
    const std::vector<std::string> valid{"simulate", "sweep", "execute"};
    CHECK(did_you_mean("simulat", valid) == ", did you mean \"simulate\"?");
    // two neighbouring letters swapped
    CHECK(did_you_mean("siumlate", valid) == ", did you mean \"simulate\"?");
    CHECK(did_you_mean("swep", valid) == ", did you mean \"sweep\"?");
    CHECK(did_you_mean("plot", valid).empty());
    CHECK(did_you_mean("", valid).empty());
    CHECK(did_you_mean("op", std::vector<std::string>{"tp", "ep"}).empty());
    CHECK(did_you_mean(std::string(100000, 'a'), valid).empty());
}

TEST_CASE("every name reads back to its enumerator") {
    for (const auto d : {Dtype::fp32, Dtype::tf32, Dtype::fp16, Dtype::bf16, Dtype::fp8})
        CHECK(parse_name<Dtype>(to_string(d)) == d);
    for (const auto o : {Optimizer::none, Optimizer::sgd, Optimizer::adam, Optimizer::lamb})
        CHECK(parse_name<Optimizer>(to_string(o)) == o);
    for (const auto k : {Workload::Kind::moe_layer, Workload::Kind::mlp})
        CHECK(parse_name<Workload::Kind>(to_string(k)) == k);
    for (const auto s :
         {MoeSystem::fast_moe, MoeSystem::faster_moe, MoeSystem::mix_moe, MoeSystem::alltoall})
        CHECK(parse_name<MoeSystem>(to_string(s)) == s);
    for (const auto s : {Schedule::gpipe, Schedule::one_f_one_b})
        CHECK(parse_name<Schedule>(to_string(s)) == s);
    for (const auto r : {Recompute::none, Recompute::selective, Recompute::full})
        CHECK(parse_name<Recompute>(to_string(r)) == r);
    for (const auto k : {RoutingSpec::Kind::uniform, RoutingSpec::Kind::zipf,
                         RoutingSpec::Kind::random_gate, RoutingSpec::Kind::file})
        CHECK(parse_name<RoutingSpec::Kind>(to_string(k)) == k);
}

TEST_CASE("enumerators that files call as the source does have each their own word") {
    CHECK(to_string(Optimizer::none) == "none");
    CHECK(to_string(Optimizer::sgd) == "sgd");
    CHECK(to_string(Optimizer::lamb) == "lamb");
    CHECK(to_string(Activation::gelu_steps) == "gelu_steps");
    CHECK(to_string(Workload::Kind::moe_layer) == "moe_layer");  // an enumeration inside a struct
    CHECK(to_string(Workload::Kind::coca) == "coca");
    CHECK(name_list<Norm>.size() == 2);
    CHECK(complaint([] { parse_name<Norm>("layernorm, rmsnorm"); }) ==
          "\"layernorm, rmsnorm\" is not a norm; expected layernorm or rmsnorm");
}

TEST_CASE("an unknown name lists the valid ones") {
    CHECK(complaint([] { parse_name<Dtype>("fp61"); }) ==
          "\"fp61\" is not a dtype; expected fp32, tf32, fp16, bf16, fp8 or fp4, did you mean "
          "\"fp16\"?");
    CHECK(complaint([] { parse_name<MoeSystem>("naive"); }) ==
          "\"naive\" is not an MoE system; expected fast_moe, faster_moe, mix_moe or alltoall");
}

TEST_CASE("an element of tf32 is stored in four bytes") {
    CHECK(size_of(Dtype::tf32) == Bytes(4));
    CHECK(size_of(Dtype::fp32) == Bytes(4));
    CHECK(size_of(Dtype::bf16) == Bytes(2));
    CHECK(size_of(Dtype::fp8) == Bytes(1));
}

TEST_CASE("a device without a rate names those it has") {
    Gpu gpu;
    gpu.name = "X100";
    gpu.peaks[Dtype::fp16] = FlopsPerSecond(300e12);
    CHECK(peak(gpu, Dtype::fp16) == FlopsPerSecond(300e12));
    CHECK(complaint([&] { (void)peak(gpu, Dtype::fp8); }) ==
          "cluster.gpu.peak.fp8: device \"X100\" has no such rate, which begins at compute "
          "capability 89; it has fp16; set this key or choose another "
          "workload.dtype");
}
