#include "reports/inline_svg.h"

#include <array>

#include <fmt/format.h>

#include "model/files/stamp.h"
#include "reports/table.h"

namespace stepcast {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    std::string out;
    std::size_t at = 0;
    for (std::size_t found; (found = text.find(from, at)) != std::string::npos; at = found + from.size())
        out.append(text, at, found - at).append(to);
    text = out.append(text, at);
}

// The same picture has the same names, whoever writes it when.
std::string name_of(std::string_view svg) {
    return fmt::format("p{:08x}-", fnv1a(svg) & 0xffffffffU);
}

// What reports/plot_frame.cpp and the plots draw their frames in, as gnuplot writes it.
struct Grey {
    std::array<std::string_view, 4> written;
    std::string_view variable;
};
constexpr std::array<Grey, 6> greys{{{{"black", "rgb(  0,   0,   0)", "rgb(17,17,17)", "rgb( 17,  17,  17)"}, "ink"},
                                     {{"rgb(51,51,51)", "rgb( 51,  51,  51)"}, "ink"},
                                     {{"rgb(85,85,85)", "rgb( 85,  85,  85)"}, "grey"},
                                     {{"rgb(228,228,228)", "rgb(228, 228, 228)", "rgb(204, 204, 204)"}, "grid"},
                                     {{"rgb(239, 239, 239)"}, "band"},
                                     {{"rgb(218, 218, 218)"}, "inner-band"}}};

void follow_the_page(std::string& svg) {
    for (const Grey& grey : greys)
        for (const std::string_view written : grey.written)
            if (!written.empty())
                for (const char quote : {'"', '\''})
                    replace_all(svg, fmt::format("{0}{1}{0}", quote, written), fmt::format("{0}var(--plot-{1}){0}", quote, grey.variable));
    replace_all(svg, "stroke='rgb(255, 255, 255)'", "stroke='var(--plot-ground)'");
    for (const char* mark : {"color='#FFFFFF'", "color=\"#FFFFFF\""}) replace_all(svg, mark, "color='var(--plot-ground)'");  // open marks
    replace_all(svg, "height=\"1000\" fill=\"#ffffff\"", "height=\"1000\" fill=\"none\"");
}

void name_apart(std::string& svg, const std::string& name) {
    for (const char* before : {" id='", " id=\"", "href='#", "href=\"#", "url(#"})
        replace_all(svg, before, before + name);
}

// From `begin` to and with `end`, once.
void cut(std::string& text, std::string_view begin, std::string_view end) {
    const std::size_t from = text.find(begin), to = from == std::string::npos ? from : text.find(end, from);
    if (to != std::string::npos) text.erase(from, to + end.size() - from);
}

}  // namespace

std::string inline_svg(std::string_view svg, std::string_view label) {
    const std::size_t root = svg.find("<svg"), inside = root == std::string_view::npos ? root : svg.find('>', root);
    if (inside == std::string_view::npos) return "";
    std::string picture(svg.substr(inside + 1));
    cut(picture, "<title>", "</title>");
    cut(picture, "<desc>", "</desc>");
    follow_the_page(picture);
    name_apart(picture, name_of(svg));
    return fmt::format("<svg class=\"plot\" viewBox=\"0 0 1600 1000\" role=\"img\" aria-label=\"{}\">", html_text(label)) + picture;
}

}  // namespace stepcast
