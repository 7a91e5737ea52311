// The graph of a small step as a file for Graphviz.
#pragma once

#include <string>

#include "model/graph/task_graph.h"

namespace stepcast {

// More tasks make no picture that anybody can read, and take Graphviz minutes.
inline constexpr std::size_t most_drawn_tasks = 2000;

// In the language of Graphviz: a box for each task with its name, what it was written for and its
// ranks, in the colour of its lane; an arrow to each task that waits for it. Throws ConfigError for
// a graph of more than most_drawn_tasks.
std::string dot_of(const TaskGraph& graph, const std::string& title);
// Throws ConfigError when the file cannot be written.
void write_dot(const TaskGraph& graph, const std::string& title, const std::string& path);

}  // namespace stepcast
