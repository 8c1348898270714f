# What is done with the things the Makefile builds: demo, check, bench, compare, fuzz, install.
#
# `make demo` and `make check` begin on a machine with git and make only. So they first install what
# is missing (tools/deps; DEPS=no leaves the machine alone) and then call make again, because what
# pkg-config and the compiler said when this make started is stale by then.

DEPS ?= yes
# A bit over half a GiB for one compiler; never more jobs than the memory has room for.
JOBS ?= $(shell n=$$(nproc); m=$$(awk '/^MemAvailable/ {print int($$2 / 900000)}' /proc/meminfo); \
          [ "$$m" -ge 1 ] || m=1; [ "$$n" -le "$$m" ] && echo $$n || echo $$m)
# Under -j this make already shares its jobs with those it calls.
PAR = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
AGAIN = +@$(MAKE) --no-print-directory $(PAR)
need = $(if $(filter no,$(DEPS)),,@tools/deps $(1))

CHECK_SECONDS ?= 300
FUZZ_SECONDS  ?= 10
LOGS := $B/log

.PHONY: deps
deps:
	@tools/deps all

# ---------------------------------------------------------------- demo
.PHONY: demo
demo:
	$(call need,build)
	$(AGAIN) all
	@tools/demo $B/bin/ef_allreduce_perf

.PHONY: lab-demo
lab-demo:
	$(call need,build)
	$(AGAIN) all
	@BIN=$B/bin tools/lab-demo $(LAB_DEMO_FLAGS)

# ---------------------------------------------------------------- check
# With g++ and -Werror: every test program, every script, every bench once, every fuzzer for
# $(FUZZ_SECONDS). check-gtest runs the GoogleTest programs only: with SAN= this is the whole suite
# under a sanitizer.
SCRIPTS := tests/lint/includes tests/lint/man tests/lint/style tests/abi/run tests/install/run tests/launch/run \
           tests/lab/run tests/lab/congestion tests/lab/link_failure

.PHONY: check check-run check-gtest check-gtest-run check-build
check:
	$(call need,build test)
	$(AGAIN) WERROR=1 check-build
	$(AGAIN) WERROR=1 check-run

check-build: all tests benches
	+@if command -v clang++ >/dev/null; then \
	    $(MAKE) --no-print-directory $(PAR) CXX=clang++ CC=clang SAN=fuzzer CXXFLAGS='-O1 -g' WERROR=1 fuzzers; fi

# What a script needs to know of this build.
export_build = EF_BUILD=$B EF_VERSION=$(VERSION) EF_SOVER=$(SOVER) EF_MAKE='$(MAKE)' CXX='$(CXX)' CC='$(CC)'

check-run:
	@$(export_build) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run -l $(LOGS) -t $(CHECK_SECONDS) \
	  $(SCRIPTS:%=tap=%) $(TEST_BIN:%=gtest=%) $(BENCH_BIN:%=bench=%) \
	  $$(if command -v clang++ >/dev/null; \
	     then echo $(FUZZ_SRC:tests/fuzz/%.cpp=fuzz=build/clang++-fuzzer/fuzz/%); \
	     else echo 'skip=fuzz:clang++-is-not-installed'; fi)

# In a virtual machine with soft-RoCE devices (tests/guest), with the programs of this build.
.PHONY: check-verbs
check-verbs:
	$(call need,build test guest)
	$(AGAIN) WERROR=1 lib programs $B/tests/conformance/verbs_conformance_test $B/tests/allreduce/random_programs_test
	@EF_BUILD=$B tests/guest/check

.PHONY: check-build-all
check-build-all:
	$(call need,build test)
	$(AGAIN) all tests benches

check-gtest:
	$(call need,build test)
	$(AGAIN) check-gtest-build
	$(AGAIN) check-gtest-run
.PHONY: check-gtest-build
check-gtest-build: tests
check-gtest-run:
	@tests/run -l $(LOGS) -t $(CHECK_SECONDS) $(TEST_BIN:%=gtest=%)

# ---------------------------------------------------------------- bench, compare, fuzz
.PHONY: bench compare fuzz
bench:
	$(call need,build test)
	$(AGAIN) benches
	@for b in $(BENCH_BIN); do echo "== $$b" && $$b $(BENCH_FLAGS) || exit 1; done

compare:
	$(call need,build compare)
	$(AGAIN) all
	@$(export_build) perftests/compare/run $(COMPARE_FLAGS)

# make fuzz FUZZ_SECONDS=3600
fuzz:
	$(call need,build test)
	$(AGAIN) CXX=clang++ CC=clang SAN=fuzzer CXXFLAGS='-O1 -g' fuzzers
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run -l build/clang++-fuzzer/log -t $$(($(FUZZ_SECONDS) + 120)) \
	  $(FUZZ_SRC:tests/fuzz/%.cpp=fuzz=build/clang++-fuzzer/fuzz/%)

# ---------------------------------------------------------------- install
# The shared object is 0644 and the links to it relative; a manual page that documents several
# functions gets a link per name. Installed programs are linked anew, without the run path by which
# those in the build folder find the library beside them.
PC := $B/libeflops.pc
D   = $(DESTDIR)

.PHONY: install uninstall
$(PC): include/libeflops.pc.in FORCE
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	  -e 's|@VERSION@|$(VERSION)|' $< > $@
.PHONY: FORCE
FORCE:

$B/installed/%: $B/bin/%
	@mkdir -p $(@D)
	$(call Q,LD)$(CXX) $(ALL_LDFLAGS) -o $@ $$(ls $B/perftests/$*.o $B/tools/$*.o 2>/dev/null) \
	  $(COMMON_OBJ) -L$B -leflops -lfmt

# These hold what they need of the library and have no run path.
$B/installed/ef_plan $B/installed/ef_lab: $B/installed/%: $B/bin/%
	@mkdir -p $(@D)
	$(call Q,CP)cp $< $@

install: all $(PC) $(PROGRAMS:%=$B/installed/%)
	install -d $(D)$(LIBDIR)/pkgconfig $(D)$(INCLUDEDIR)/eflops $(D)$(BINDIR)
	install -m 644 $(LIB) $(D)$(LIBDIR)/
	$(if $(VERBS_LIB),install -m 644 $(VERBS_LIB) $(D)$(LIBDIR)/)
	ln -sf libeflops.so.$(VERSION) $(D)$(LIBDIR)/libeflops.so.$(SOVER)
	ln -sf libeflops.so.$(SOVER) $(D)$(LIBDIR)/libeflops.so
	install -m 644 $(PC) $(D)$(LIBDIR)/pkgconfig/eflops.pc
	install -m 644 $(HEADERS) $(D)$(INCLUDEDIR)/eflops/
	tools/install-man $(D)$(MANDIR) $(MAN)
	$(if $(PROGRAMS),install -m 755 $(PROGRAMS:%=$B/installed/%) $(D)$(BINDIR)/)
	$(if $(DESTDIR),,-ldconfig)

uninstall:
	rm -f $(D)$(LIBDIR)/libeflops.so.$(VERSION) $(D)$(LIBDIR)/libeflops.so.$(SOVER) $(D)$(LIBDIR)/libeflops.so \
	  $(D)$(LIBDIR)/libeflops-verbs.so
	rm -f $(D)$(LIBDIR)/pkgconfig/eflops.pc $(HEADERS:include/%=$(D)$(INCLUDEDIR)/%) $(PROGRAMS:%=$(D)$(BINDIR)/%)
	-rmdir $(D)$(INCLUDEDIR)/eflops 2>/dev/null
	tools/install-man -u $(D)$(MANDIR) $(MAN)
