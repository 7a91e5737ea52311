// Values of keys by type: from a file's value, to text. Internal to model/.
#pragma once

#include "model/keys/keys.h"

namespace stepcast {

// Throws ConfigError saying what was found and what was expected.
void read_value(const ConfigValue& found, int& out);
void read_value(const ConfigValue& found, bool& out);
void read_value(const ConfigValue& found, double& out);
void read_value(const ConfigValue& found, std::uint64_t& out);
void read_value(const ConfigValue& found, std::string& out);
void read_value(const ConfigValue& found, Seconds& out);
void read_value(const ConfigValue& found, Bytes& out);
void read_value(const ConfigValue& found, BytesPerSecond& out);
void read_value(const ConfigValue& found, FlopsPerSecond& out);
void read_value(const ConfigValue& found, Dtype& out);
void read_value(const ConfigValue& found, Optimizer& out);
void read_value(const ConfigValue& found, Workload::Kind& out);
void read_value(const ConfigValue& found, MoeSystem& out);
void read_value(const ConfigValue& found, Schedule& out);
void read_value(const ConfigValue& found, Recompute& out);
void read_value(const ConfigValue& found, Norm& out);
void read_value(const ConfigValue& found, AttentionKind& out);
void read_value(const ConfigValue& found, Positions& out);
void read_value(const ConfigValue& found, Activation& out);
void read_value(const ConfigValue& found, Head& out);
void read_value(const ConfigValue& found, ContextExchange& out);
void read_value(const ConfigValue& found, StageCut& out);
void read_value(const ConfigValue& found, ExpertProducts& out);
void read_value(const ConfigValue& found, Fabric& out);
void read_value(const ConfigValue& found, RoutingSpec::Kind& out);
void read_value(const ConfigValue& found, std::vector<int>& out);         // [13, 14, ..]
void read_value(const ConfigValue& found, std::vector<double>& out);      // [1, 0.93, ..]
void read_value(const ConfigValue& found, Curve& out);                    // [["4 KiB", "3.1 us"], ..]
void read_value(const ConfigValue& found, std::vector<AttentionKernel>& out);  // a row: its fields in their order
void read_value(const ConfigValue& found, std::vector<ExpertKernel>& out);
void read_value(const ConfigValue& found, std::vector<GemmPoint>& out);   // [[m, n, k, "fp32", "12 us"], ..]
void read_value(const ConfigValue& found, GradientType& out);
void read_value(const ConfigValue& found, std::vector<Schedule>& out);   // ["1f1b", ..]
void read_value(const ConfigValue& found, std::vector<Recompute>& out);  // ["none", "full"]

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// Empty text: not stated.
template <class T>
void read_value(const ConfigValue& found, std::optional<T>& out) {
    const auto* text = std::get_if<std::string>(&found.value);
    if (text && text->empty()) return out.reset();
    read_value(found, out.emplace());
}

// Reads back to an equal value; no quotes around text.
std::string value_text(int value);
std::string value_text(bool value);
std::string value_text(double value);
std::string value_text(std::uint64_t value);
std::string value_text(const std::string& value);
std::string value_text(const std::vector<int>& value);
std::string value_text(const std::vector<double>& value);
std::string value_text(const Curve& value);
std::string value_text(const std::vector<AttentionKernel>& value);
std::string value_text(const std::vector<ExpertKernel>& value);
std::string value_text(const std::vector<GemmPoint>& value);
inline std::string value_text(Seconds value) { return exact_text(value); }
inline std::string value_text(Bytes value) { return exact_text(value); }
inline std::string value_text(BytesPerSecond value) { return exact_text(value); }
inline std::string value_text(FlopsPerSecond value) { return exact_text(value); }
template <class Enum>
requires std::is_enum_v<Enum> std::string value_text(Enum value) { return std::string(to_string(value)); }
template <class Enum>
requires std::is_enum_v<Enum> std::string value_text(const std::vector<Enum>& value) {
    std::string text;
    for (const Enum one : value) text += (text.empty() ? "\"" : ", \"") + std::string(to_string(one)) + "\"";
    return "[" + text + "]";
}
template <class T>
std::string value_text(const std::optional<T>& value) {
    return value ? value_text(*value) : std::string();
}

template <class T>
constexpr std::string_view kind_of() {
    if constexpr (is_optional<T>)
        return kind_of<typename T::value_type>();
    else if constexpr (std::is_same_v<T, bool>)
        return "boolean";
    else if constexpr (std::is_integral_v<T>)
        return "integer";
    else if constexpr (std::is_same_v<T, double>)
        return "number";
    else if constexpr (std::is_same_v<T, Seconds>)
        return "time";
    else if constexpr (std::is_same_v<T, Bytes>)
        return "bytes";
    else if constexpr (std::is_same_v<T, BytesPerSecond>)
        return "bytes per second";
    else if constexpr (std::is_same_v<T, FlopsPerSecond>)
        return "flop per second";
    else if constexpr (std::is_same_v<T, std::string>)
        return "text";
    else if constexpr (std::is_same_v<T, std::vector<int>>)
        return "integers";
    else if constexpr (std::is_same_v<T, std::vector<Schedule>> || std::is_same_v<T, std::vector<Recompute>>)
        return "names";
    else if constexpr (std::is_same_v<T, std::vector<double>>)
        return "numbers";
    else if constexpr (std::is_same_v<T, Curve>)
        return "curve";
    else if constexpr (std::is_same_v<T, std::vector<AttentionKernel>> || std::is_same_v<T, std::vector<ExpertKernel>>)
        return "kernels";
    else if constexpr (std::is_same_v<T, std::vector<GemmPoint>>)
        return "gemm table";
    else
        return "name";
}

}  // namespace stepcast
