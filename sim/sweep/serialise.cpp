#include "sim/sweep/pool.h"

#include <bit>
#include <concepts>
#include <stdexcept>

namespace stepcast {
namespace {

// What a value is made of, in the order of the message: of a value to write or to read into.
template <class T, class Value>
concept Of = std::same_as<std::remove_const_t<T>, Value>;

void parts(auto& pass, Of<PointId> auto& id) { pass(id.base, id.inner); }
void parts(auto& pass, Of<Candidate> auto& c) { pass(c.id, c.lower, c.estimate, c.peak, c.tokens, c.price, c.ranks); }
void parts(auto& pass, Of<Incumbent> auto& i) { pass(i.score.first, i.score.second, i.id, i.group); }
void parts(auto& pass, Of<SimulatedPoint> auto& p) { pass(p.id, p.step, p.refused); }
void parts(auto& pass, Of<SweepJob> auto& job) { pass(job.items, job.points, job.incumbents); }
void parts(auto& pass, Of<SweepJobResult> auto& result) {
    auto& s = result.screened;
    pass(s.legal, s.bounded_away, s.illegal, s.infeasible, s.candidates, s.cells, result.simulated);
}
template <class First, class Second>
void parts(auto& pass, const std::pair<First, Second>& pair) {
    pass(pair.first, pair.second);
}
template <class First, class Second>
void parts(auto& pass, std::pair<First, Second>& pair) {
    pass(pair.first, pair.second);
}

class Writer {
public:
    void operator()(const auto&... values) { (put(values), ...); }
    Words take() { return std::move(words_); }

private:
    void put(std::uint64_t word) { words_.push_back(word); }
    void put(int number) { put(static_cast<std::uint64_t>(static_cast<std::int64_t>(number))); }
    void put(double number) { put(std::bit_cast<std::uint64_t>(number)); }
    void put(Seconds time) { put(time.si()); }
    void put(Bytes bytes) { put(bytes.si()); }
    template <class Value>
    void put(const Value& value) {
        if constexpr (requires { value.size(); }) {
            put(static_cast<std::uint64_t>(value.size()));
            for (const auto& one : value) {
                if constexpr (std::same_as<Value, std::string>) put(static_cast<std::uint64_t>(static_cast<unsigned char>(one)));
                else put(one);
            }
        } else {
            parts(*this, value);
        }
    }
    Words words_;
};

class Reader {
public:
    explicit Reader(std::span<const std::uint64_t> words) : words_(words) {}
    void operator()(auto&... values) { (get(values), ...); }
    void end() const {
        if (at_ != words_.size()) throw std::logic_error("a message of the sweep is too long");
    }

private:
    void get(std::uint64_t& word) { word = next(); }
    void get(int& number) { number = static_cast<int>(static_cast<std::int64_t>(next())); }
    void get(double& number) { number = std::bit_cast<double>(next()); }
    void get(Seconds& time) { time = Seconds(std::bit_cast<double>(next())); }
    void get(Bytes& bytes) { bytes = Bytes(std::bit_cast<double>(next())); }
    void get(std::string& text) {
        text.resize(size());
        for (char& c : text) c = static_cast<char>(static_cast<unsigned char>(next()));
    }
    template <class One>
    void get(std::vector<One>& all) {
        all.resize(size());
        for (One& one : all) get(one);
    }
    template <class Key, class Value, class Order>
    void get(std::map<Key, Value, Order>& all) {
        for (std::size_t left = size(); left > 0; --left) {
            Key key;
            get(key);
            get(all[key]);
        }
    }
    void get(auto& value) { parts(*this, value); }

    std::uint64_t next() {
        if (at_ >= words_.size()) throw std::logic_error("a message of the sweep is too short");
        return words_[at_++];
    }
    std::size_t size() {
        const std::uint64_t n = next();
        if (n > words_.size()) throw std::logic_error("a message of the sweep is broken");
        return n;
    }
    std::span<const std::uint64_t> words_;
    std::size_t at_ = 0;
};

template <class Value>
Words words_of(const Value& value) {
    Writer write;
    write(value);
    return write.take();
}
template <class Value>
Value value_of(std::span<const std::uint64_t> words) {
    Value value;
    Reader read(words);
    read(value);
    read.end();
    return value;
}

}  // namespace

Words serialised(const SweepJob& job) { return words_of(job); }
Words serialised(const SweepJobResult& result) { return words_of(result); }
SweepJob job_of(std::span<const std::uint64_t> words) { return value_of<SweepJob>(words); }
SweepJobResult result_of(std::span<const std::uint64_t> words) { return value_of<SweepJobResult>(words); }

}  // namespace stepcast
