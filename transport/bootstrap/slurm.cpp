#include "transport/bootstrap/slurm.hpp"

namespace ef {

result<std::string> first_slurm_host(std::string_view list) {
    std::string host;
    while (!list.empty() && list.front() != ',') {
        if (list.front() != '[') {
            host += list.front();
            list.remove_prefix(1);
            continue;
        }
        const size_t close = list.find(']');
        if (close == std::string_view::npos || close == 1)
            return status(EF_INVALID,
                          "slurm: SLURM_STEP_NODELIST has an unclosed or empty bracket");
        const std::string_view inside = list.substr(1, close - 1);
        host += inside.substr(0, inside.find_first_of(",-"));
        list.remove_prefix(close + 1);
    }
    if (host.empty()) return status(EF_INVALID, "slurm: SLURM_STEP_NODELIST names no host");
    return host;
}

}  // namespace ef
