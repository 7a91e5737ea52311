#include "reports/campaign_tables.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "reports/table.h"

namespace stepcast {
namespace {

constexpr double hour = 3600, day = 24 * hour;

// In the unit that fits `middle`.
std::string money_figure(double money, double middle) {
    if (!std::isfinite(money)) return "n/a";
    if (middle >= 1e9) return figure(money / 1e9) + " G";
    return middle >= 1e6 ? figure(money / 1e6) + " M" : count_text(money);
}

std::string energy_figure(Joules energy) {
    const double kwh = energy.si() / 3.6e6;
    if (kwh >= 1e6) return figure(kwh / 1e6) + " GWh";
    return kwh >= 1e3 ? figure(kwh / 1e3) + " MWh" : figure(kwh) + " kWh";
}

// "middle (low .. high)" for values whose texts end in one unit; without the range if all texts are
// equal.
template <class Value, class TextOf>
std::string with_range(const std::array<Value, 3>& values, TextOf text_of) {
    const std::string low = text_of(values[0]), middle = text_of(values[1]),
                      high = text_of(values[2]);
    if (low == high) return middle;
    const auto unit = low.find_last_of(' ');
    const bool same = unit != std::string::npos && high.ends_with(low.substr(unit));
    return fmt::format("{} ({} .. {})", middle, same ? low.substr(0, unit) : low,
                       same ? high.substr(0, high.size() - (low.size() - unit)) : high);
}

}  // namespace

std::string duration_text(Seconds time) {
    const double s = time.si();
    if (!std::isfinite(s)) return "n/a";
    if (s >= day) return fmt::format("{:.1f} d", s / day);
    if (s >= hour) return fmt::format("{:.1f} h", s / hour);
    return s >= 60 ? fmt::format("{:.1f} min", s / 60) : fmt::format("{:.1f} s", s);
}

std::string spoken_count(double count) {
    for (const auto& [factor, name] : {std::pair{1e12, " T"}, {1e9, " B"}, {1e6, " M"}})
        if (count >= factor) return fmt::format("{:.4g}{}", count / factor, name);
    return count_text(count);
}

std::string days_text(const Campaign& c) { return with_range(c.time, duration_text); }
std::string money_text(const Campaign& c) {
    return c.money[1] > 0
               ? with_range(c.money, [&](double money) { return money_figure(money, c.money[1]); })
               : "-";
}
std::string energy_text(const Campaign& c) {
    return c.energy[1] > Joules(0) ? with_range(c.energy, energy_figure) : "-";
}

std::string price_text(const Campaign& c) {
    if (c.offer.price_per_gpu_hour <= 0)
        return "price not known: set cluster.price_per_gpu_hour, or --market";
    return fmt::format("{} {} an hour{}", c.offer.price_per_gpu_hour, c.currency,
                       c.offer.price_source.empty() ? "" : " (" + c.offer.price_source + ")");
}

std::string goodput_text(const Goodput& g) {
    std::string text = percent_text(g.share);
    if (g.failure_every <= Seconds(0)) return text + ", no failures counted";
    text += fmt::format(": a failure every {}", duration_text(g.failure_every));
    if (g.checkpoint_every > Seconds(0))
        text += fmt::format(", a checkpoint every {}", duration_text(g.checkpoint_every));
    return text;
}

std::string campaign_table(const Campaign& c) {
    const auto line = [](const char* name, const std::string& text) {
        return wrapped(fmt::format("  {:<22} {}", name, text), 25);
    };
    const bool priced = c.money[1] > 0;
    return fmt::format("training on {} tokens, {} steps\n", spoken_count(c.tokens),
                       count_text(c.steps)) +
           line("time", days_text(c)) +
           line("money", priced ? fmt::format("{}: {} x {}", money_text(c), c.ranks, price_text(c))
                                : price_text(c)) +
           line("energy", c.energy[1] > Joules(0)
                              ? fmt::format("at most {}: {}", energy_text(c), c.offer.power_source)
                              : "power not known: name it in --market") +
           line("useful of all time", goodput_text(c.goodput));
}

}  // namespace stepcast
