#include "sim/sweep/serialise.h"

#include <bit>
#include <stdexcept>

namespace stepcast {
namespace {

class Writer {
public:
    void put(std::uint64_t word) { words_.push_back(word); }
    void put(int number) { put(static_cast<std::uint64_t>(static_cast<std::int64_t>(number))); }
    void put(double number) { put(std::bit_cast<std::uint64_t>(number)); }
    void put(Seconds time) { put(time.si()); }
    void put(Bytes bytes) { put(bytes.si()); }
    void put(PointId id) {
        put(id.base);
        put(id.inner);
    }
    void put(const std::string& text) {
        put(static_cast<std::uint64_t>(text.size()));
        for (const char c : text) put(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    }
    void put(const Candidate& c) {
        put(c.id);
        put(c.lower);
        put(c.estimate);
        put(c.peak);
        put(c.tokens);
        put(c.price);
        put(c.ranks);
    }
    void put(const Incumbent& i) {
        put(i.score.first);
        put(i.score.second);
        put(i.id);
        put(i.group);
    }
    void put(const SimulatedPoint& p) {
        put(p.id);
        put(p.step);
        put(p.refused);
    }
    template <class First, class Second>
    void put(const std::pair<First, Second>& pair) {
        put(pair.first);
        put(pair.second);
    }
    template <class All>
    requires requires(const All& all) { all.begin()->first; } || requires(const All& all) {
        all.data()->id;
    } || std::is_same_v<All, std::vector<std::uint64_t>>
    void put(const All& all) {
        put(static_cast<std::uint64_t>(all.size()));
        for (const auto& one : all) put(one);
    }
    Words take() { return std::move(words_); }

private:
    Words words_;
};

class Reader {
public:
    explicit Reader(std::span<const std::uint64_t> words) : words_(words) {}

    void get(std::uint64_t& word) {
        if (at_ >= words_.size()) throw std::logic_error("a message of the sweep is too short");
        word = words_[at_++];
    }
    void get(int& number) { number = static_cast<int>(static_cast<std::int64_t>(next())); }
    void get(double& number) { number = std::bit_cast<double>(next()); }
    void get(Seconds& time) { time = Seconds(std::bit_cast<double>(next())); }
    void get(Bytes& bytes) { bytes = Bytes(std::bit_cast<double>(next())); }
    void get(PointId& id) {
        get(id.base);
        get(id.inner);
    }
    void get(std::string& text) {
        text.resize(size());
        for (char& c : text) c = static_cast<char>(static_cast<unsigned char>(next()));
    }
    void get(Candidate& c) {
        get(c.id);
        get(c.lower);
        get(c.estimate);
        get(c.peak);
        get(c.tokens);
        get(c.price);
        get(c.ranks);
    }
    void get(Incumbent& i) {
        get(i.score.first);
        get(i.score.second);
        get(i.id);
        get(i.group);
    }
    void get(SimulatedPoint& p) {
        get(p.id);
        get(p.step);
        get(p.refused);
    }
    void get(std::pair<int, int>& pair) {
        get(pair.first);
        get(pair.second);
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
    void end() const {
        if (at_ != words_.size()) throw std::logic_error("a message of the sweep is too long");
    }

private:
    std::uint64_t next() {
        std::uint64_t word = 0;
        get(word);
        return word;
    }
    std::size_t size() {
        const std::uint64_t n = next();
        if (n > words_.size()) throw std::logic_error("a message of the sweep is broken");
        return n;
    }

    std::span<const std::uint64_t> words_;
    std::size_t at_ = 0;
};

}  // namespace

Words serialised(const SweepJob& job) {
    Writer writer;
    writer.put(job.items);
    writer.put(job.points);
    writer.put(job.incumbents);
    return writer.take();
}

Words serialised(const SweepJobResult& result) {
    const Screened& s = result.screened;
    Writer writer;
    writer.put(s.legal);
    writer.put(s.bounded_away);
    writer.put(s.illegal);
    writer.put(s.infeasible);
    writer.put(s.candidates);
    writer.put(s.cells);
    writer.put(result.simulated);
    return writer.take();
}

SweepJob job_of(std::span<const std::uint64_t> words) {
    SweepJob job;
    Reader reader(words);
    reader.get(job.items);
    reader.get(job.points);
    reader.get(job.incumbents);
    reader.end();
    return job;
}

SweepJobResult result_of(std::span<const std::uint64_t> words) {
    SweepJobResult result;
    Screened& s = result.screened;
    Reader reader(words);
    reader.get(s.legal);
    reader.get(s.bounded_away);
    reader.get(s.illegal);
    reader.get(s.infeasible);
    reader.get(s.candidates);
    reader.get(s.cells);
    reader.get(result.simulated);
    reader.end();
    return result;
}

}  // namespace stepcast
