/*
 * fakecuda.c - a TEST-ONLY stand-in for libcuda.so.1 (x86-64 Linux), written from scratch.
 *
 * It reports ONE fake GPU, backs every device allocation with host memory and turns copies and
 * memsets into memcpy/memset.  It cannot run kernels: cuLaunchKernel* either fails
 * (CUDA_ERROR_NOT_SUPPORTED, default) or is a silent no-op (FAKECUDA_LAUNCH=noop), so every number that
 * a kernel should have produced is garbage.  Use it to exercise host-side code paths only: it serves
 * driver-API clients (cuda.bindings.driver, cuda.core).  It does NOT bring up libcudart, so not torch.cuda, not
 * onnxruntime's CUDA provider, not tensorrt.Runtime (see cuGetExportTable below).
 *
 *   FAKECUDA_CC=9.0       compute capability            FAKECUDA_DRIVER=13000  cuDriverGetVersion value
 *   FAKECUDA_NAME=...     device name                   FAKECUDA_MEM_MB=143771 reported memory
 *   FAKECUDA_LOG=1|path   log every entry point asked for and called (1 = stderr)
 *   FAKECUDA_LAUNCH=noop  let kernel launches "succeed" FAKECUDA_COUNT=1       number of devices
 *   FAKECUDA_BREAK=n      the device fails for good after n copies
 *
 * tests/stub_driver.py compiles it and runs functions on it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef void *H; /* any opaque handle */
enum { OK = 0, E_VALUE = 1, E_OOM = 2, E_NOTINIT = 3, E_NODEV = 100, E_BADDEV = 101, E_BADCTX = 201, E_NOTFOUND = 500, E_LAUNCH = 719, E_UNSUP = 801 };

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static FILE *logf_;
static int cfg_done, cc_major = 9, cc_minor = 0, drv = 13000, ndev = 1, launch_noop, copies_left = -1;
static size_t mem_total = (size_t)143771 << 20;
static const char *devname = "FAKE NVIDIA H200 (no GPU, test stub)";

static void cfg(void) {
    if (cfg_done) return;
    cfg_done = 1;
    const char *s;
    if ((s = getenv("FAKECUDA_CC"))) sscanf(s, "%d.%d", &cc_major, &cc_minor);
    if ((s = getenv("FAKECUDA_DRIVER"))) drv = atoi(s);
    if ((s = getenv("FAKECUDA_COUNT"))) ndev = atoi(s);
    if ((s = getenv("FAKECUDA_NAME"))) devname = s;
    if ((s = getenv("FAKECUDA_MEM_MB"))) mem_total = (size_t)atoll(s) << 20;
    if ((s = getenv("FAKECUDA_BREAK"))) copies_left = atoi(s);
    if ((s = getenv("FAKECUDA_LAUNCH"))) launch_noop = !strcmp(s, "noop");
    if ((s = getenv("FAKECUDA_LOG")) && *s) logf_ = !strcmp(s, "1") ? stderr : fopen(s, "a");
    if (logf_) setvbuf(logf_, NULL, _IOLBF, 0);
}
static void lg(const char *fmt, ...) {
    cfg();
    if (!logf_) return;
    va_list ap;
    va_start(ap, fmt);
    fputs("[fakecuda] ", logf_);
    vfprintf(logf_, fmt, ap);
    fputc('\n', logf_);
    va_end(ap);
}
#define CALL lg("call %s", __func__)
#define API __attribute__((visibility("default")))

/* ---------------------------------------------------------------- devices and contexts */
struct ctx { uint32_t magic; CUdevice dev; unsigned flags; size_t limit[16]; int refs; uint64_t id; };
static struct ctx primary = { .magic = 0xC0DA };
static uint64_t ctx_ids = 1;
static __thread struct ctx *stack_[64];
static __thread int sp;

API CUresult cuInit(unsigned f) { CALL; (void)f; return ndev > 0 ? OK : E_NODEV; }
API CUresult cuDriverGetVersion(int *v) { CALL; cfg(); *v = drv; return OK; }
API CUresult cuDeviceGetCount(int *n) { CALL; cfg(); *n = ndev; return OK; }
API CUresult cuDeviceGet(CUdevice *d, int i) { CALL; cfg(); if (i < 0 || i >= ndev) return E_BADDEV; *d = i; return OK; }
API CUresult cuDeviceGetName(char *b, int n, CUdevice d) { CALL; (void)d; cfg(); snprintf(b, n, "%s", devname); return OK; }
API CUresult cuDeviceGetUuid_v2(unsigned char *u, CUdevice d) { CALL; memset(u, 0xFA, 16); u[15] = (unsigned char)d; return OK; }
API CUresult cuDeviceGetUuid(unsigned char *u, CUdevice d) { return cuDeviceGetUuid_v2(u, d); }
API CUresult cuDeviceGetLuid(char *l, unsigned *m, CUdevice d) { CALL; (void)d; memset(l, 0, 8); *m = 1; return OK; }
API CUresult cuDeviceTotalMem_v2(size_t *b, CUdevice d) { CALL; (void)d; cfg(); *b = mem_total; return OK; }
API CUresult cuDeviceGetPCIBusId(char *b, int n, CUdevice d) { CALL; snprintf(b, n, "0000:%02x:00.0", d + 1); return OK; }
API CUresult cuDeviceGetByPCIBusId(CUdevice *d, const char *s) { CALL; (void)s; *d = 0; return OK; }
API CUresult cuDeviceCanAccessPeer(int *c, CUdevice a, CUdevice b) { CALL; (void)a; (void)b; *c = 0; return OK; }
API CUresult cuDeviceComputeCapability(int *a, int *b, CUdevice d) { CALL; (void)d; cfg(); *a = cc_major; *b = cc_minor; return OK; }
API CUresult cuDeviceGetAttribute(int *v, int a, CUdevice d) {
    (void)d; cfg();
    /* CUdevice_attribute -> value; an SXM H200's public figures, otherwise 0 */
    static const struct { int a, v; } t[] = {
        {1,1024},{2,1024},{3,1024},{4,64},{5,2147483647},{6,65535},{7,65535},{8,49152},{9,65536},{10,32},{11,2147483647},
        {12,65536},{13,1980000},{14,512},{15,1},{16,132},{17,0},{18,0},{19,1},{20,0},{21,131072},{22,131072},{23,65536},
        {24,16384},{25,16384},{26,16384},{27,32768},{28,32768},{29,2048},{30,512},{31,1},{32,1},{33,1},{34,0},{35,0},
        {36,3201000},{37,6144},{38,62914560},{39,2048},{40,3},{41,1},{42,32768},{43,2048},{45,32768},{46,32768},{51,32},
        {78,1},{79,1},{80,1},{81,233472},{82,65536},{83,1},{84,0},{85,0},{86,0},{87,2},{88,0},{89,1},{90,1},{91,1},{95,1},
        {96,1},{97,232448},{98,1},{99,1},{100,0},{101,0},{102,1},{103,1},{106,32},{107,0},{108,41943040},{109,134213632},
        {110,0},{111,1024},{112,0},{113,1},{114,0},{115,1},{116,0},{119,1},{120,1},{121,0},{122,1},{123,1},{124,0},
        {125,1},{126,4},{127,1},{128,0},{129,1},{130,0},{131,-1},{132,0},{133,0},{134,-1},
    };
    if (a == 75) { *v = cc_major; lg("call cuDeviceGetAttribute(CC_MAJOR)=%d", *v); return OK; }
    if (a == 76) { *v = cc_minor; lg("call cuDeviceGetAttribute(CC_MINOR)=%d", *v); return OK; }
    if (a == 33) { *v = 1; return OK; }
    *v = 0;
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) if (t[i].a == a) *v = t[i].v;
    lg("call cuDeviceGetAttribute(%d)=%d", a, *v);
    return OK;
}
API CUresult cuDeviceGetP2PAttribute(int *v, int a, CUdevice x, CUdevice y) { CALL; (void)a; (void)x; (void)y; *v = 0; return OK; }
API CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *m, int f, unsigned n, CUdevice d) { CALL; (void)f; (void)n; (void)d; *m = 1 << 27; return OK; }

static struct ctx *cur(void) { return sp ? stack_[sp - 1] : NULL; }
API CUresult cuDevicePrimaryCtxRetain(H *c, CUdevice d) { CALL; primary.dev = d; primary.refs++; if (!primary.id) primary.id = ctx_ids++; *c = &primary; return OK; }
API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { CALL; (void)d; if (primary.refs) primary.refs--; return OK; }
API CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) { CALL; (void)d; return OK; }
API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice d, unsigned f) { CALL; (void)d; primary.flags = f; return OK; }
API CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *f, int *a) { CALL; (void)d; *f = primary.flags; *a = primary.refs > 0; return OK; }
API CUresult cuCtxCreate_v2(H *c, unsigned f, CUdevice d) { CALL; struct ctx *x = calloc(1, sizeof *x); x->magic = 0xC0DA; x->flags = f; x->dev = d; x->id = ctx_ids++; *c = x; if (sp < 64) stack_[sp++] = x; return OK; }
API CUresult cuCtxCreate_v4(H *c, void *p, unsigned f, CUdevice d) { (void)p; return cuCtxCreate_v2(c, f, d); }
API CUresult cuCtxDestroy_v2(H c) { CALL; if (cur() == c) sp--; return OK; }
API CUresult cuCtxGetCurrent(H *c) { *c = cur(); lg("call cuCtxGetCurrent -> %p", *c); return OK; }
API CUresult cuCtxSetCurrent(H c) { CALL; if (!c) { sp = 0; return OK; } if (!sp) sp = 1; stack_[sp - 1] = c; return OK; }
API CUresult cuCtxPushCurrent_v2(H c) { CALL; if (sp < 64) stack_[sp++] = c; return OK; }
API CUresult cuCtxPopCurrent_v2(H *c) { CALL; H t = cur(); if (sp) sp--; if (c) *c = t; return OK; }
API CUresult cuCtxGetDevice(CUdevice *d) { CALL; struct ctx *c = cur(); if (!c) return E_BADCTX; *d = c->dev; return OK; }
API CUresult cuCtxGetDevice_v2(CUdevice *d, H c) { CALL; struct ctx *x = c ? c : cur(); if (!x) return E_BADCTX; *d = x->dev; return OK; }
API CUresult cuCtxGetFlags(unsigned *f) { CALL; struct ctx *c = cur(); *f = c ? c->flags : 0; return OK; }
API CUresult cuCtxGetId(H c, unsigned long long *id) { CALL; struct ctx *x = c ? c : cur(); *id = x ? x->id : 0; return OK; }
API CUresult cuCtxGetApiVersion(H c, unsigned *v) { CALL; (void)c; *v = 3020; return OK; }
API CUresult cuCtxSynchronize(void) { CALL; return OK; }
API CUresult cuCtxSynchronize_v2(H c) { CALL; (void)c; return OK; }
API CUresult cuCtxGetLimit(size_t *v, int l) { CALL; struct ctx *c = cur(); *v = c && l >= 0 && l < 16 && c->limit[l] ? c->limit[l] : (l == 0 ? 1024 : l == 2 ? 8u << 20 : 0); return OK; }
API CUresult cuCtxSetLimit(int l, size_t v) { CALL; struct ctx *c = cur(); if (c && l >= 0 && l < 16) c->limit[l] = v; return OK; }
API CUresult cuCtxGetCacheConfig(int *c) { CALL; *c = 0; return OK; }
API CUresult cuCtxSetCacheConfig(int c) { CALL; (void)c; return OK; }
API CUresult cuCtxGetStreamPriorityRange(int *a, int *b) { CALL; if (a) *a = 0; if (b) *b = -5; return OK; }

/* ---------------------------------------------------------------- memory (host backed) */
struct blk { void *p; size_t n; int kind; struct blk *next; }; /* kind 1 host, 2 device */
static struct blk *blks;
static size_t used;
static CUresult mnew(CUdeviceptr *o, size_t n, int kind) {
    void *p = NULL;
    if (!n || posix_memalign(&p, 512, n)) return n ? E_OOM : E_VALUE;
    struct blk *b = malloc(sizeof *b);
    pthread_mutex_lock(&mu);
    *b = (struct blk){ p, n, kind, blks }; blks = b; if (kind == 2) used += n;
    pthread_mutex_unlock(&mu);
    *o = (CUdeviceptr)(uintptr_t)p;
    return OK;
}
static CUresult mdel(uintptr_t p) {
    if (!p) return OK;
    pthread_mutex_lock(&mu);
    for (struct blk **q = &blks; *q; q = &(*q)->next)
        if ((uintptr_t)(*q)->p == p) { struct blk *b = *q; *q = b->next; if (b->kind == 2) used -= b->n; free(b->p); free(b); break; }
    pthread_mutex_unlock(&mu);
    return OK;
}
static struct blk *mfind(uintptr_t p) {
    struct blk *r = NULL;
    pthread_mutex_lock(&mu);
    for (struct blk *b = blks; b; b = b->next) if (p >= (uintptr_t)b->p && p < (uintptr_t)b->p + b->n) { r = b; break; }
    pthread_mutex_unlock(&mu);
    return r;
}
API CUresult cuMemGetInfo_v2(size_t *f, size_t *t) { CALL; cfg(); *t = mem_total; *f = mem_total - used; return OK; }
API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) { lg("call cuMemAlloc_v2(%zu)", n); return mnew(p, n, 2); }
API CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pi, size_t w, size_t h, unsigned e) { CALL; (void)e; *pi = (w + 511) & ~(size_t)511; return mnew(p, *pi * h, 2); }
API CUresult cuMemAllocManaged(CUdeviceptr *p, size_t n, unsigned f) { CALL; (void)f; return mnew(p, n, 2); }
API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, H s) { lg("call cuMemAllocAsync(%zu)", n); (void)s; return mnew(p, n, 2); }
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, H pool, H s) { lg("call cuMemAllocFromPoolAsync(%zu)", n); (void)pool; (void)s; return mnew(p, n, 2); }
API CUresult cuMemFree_v2(CUdeviceptr p) { CALL; return mdel(p); }
API CUresult cuMemFreeAsync(CUdeviceptr p, H s) { CALL; (void)s; return mdel(p); }
API CUresult cuMemHostAlloc(void **p, size_t n, unsigned f) { lg("call cuMemHostAlloc(%zu)", n); (void)f; CUdeviceptr d = 0; CUresult r = mnew(&d, n, 1); *p = (void *)(uintptr_t)d; return r; }
API CUresult cuMemAllocHost_v2(void **p, size_t n) { return cuMemHostAlloc(p, n, 0); }
API CUresult cuMemFreeHost(void *p) { CALL; return mdel((uintptr_t)p); }
API CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned f) { CALL; (void)p; (void)n; (void)f; return OK; }
API CUresult cuMemHostUnregister(void *p) { CALL; (void)p; return OK; }
API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned f) { CALL; (void)f; *d = (uintptr_t)p; return OK; }
API CUresult cuMemHostGetFlags(unsigned *f, void *p) { CALL; (void)p; *f = 0; return OK; }
API CUresult cuMemGetAddressRange_v2(CUdeviceptr *b, size_t *n, CUdeviceptr p) { CALL; struct blk *x = mfind(p); if (!x) return E_VALUE; if (b) *b = (uintptr_t)x->p; if (n) *n = x->n; return OK; }
#define CPY(name, ...) API CUresult name(__VA_ARGS__)
static CUresult broken(void) { cfg(); return copies_left == 0 ? E_LAUNCH : OK; }
static CUresult cp(uintptr_t d, uintptr_t s, size_t n, const char *w) { lg("call %s(%zu)", w, n); if (broken()) return E_LAUNCH; if (copies_left > 0) copies_left--; if (n) memmove((void *)d, (const void *)s, n); return OK; }
CPY(cuMemcpy, CUdeviceptr d, CUdeviceptr s, size_t n) { return cp(d, s, n, __func__); }
CPY(cuMemcpyAsync, CUdeviceptr d, CUdeviceptr s, size_t n, H st) { (void)st; return cp(d, s, n, __func__); }
CPY(cuMemcpyHtoD_v2, CUdeviceptr d, const void *s, size_t n) { return cp(d, (uintptr_t)s, n, __func__); }
CPY(cuMemcpyHtoDAsync_v2, CUdeviceptr d, const void *s, size_t n, H st) { (void)st; return cp(d, (uintptr_t)s, n, __func__); }
CPY(cuMemcpyDtoH_v2, void *d, CUdeviceptr s, size_t n) { return cp((uintptr_t)d, s, n, __func__); }
CPY(cuMemcpyDtoHAsync_v2, void *d, CUdeviceptr s, size_t n, H st) { (void)st; return cp((uintptr_t)d, s, n, __func__); }
CPY(cuMemcpyDtoD_v2, CUdeviceptr d, CUdeviceptr s, size_t n) { return cp(d, s, n, __func__); }
CPY(cuMemcpyDtoDAsync_v2, CUdeviceptr d, CUdeviceptr s, size_t n, H st) { (void)st; return cp(d, s, n, __func__); }
API CUresult cuMemsetD8_v2(CUdeviceptr d, unsigned char v, size_t n) { CALL; memset((void *)(uintptr_t)d, v, n); return OK; }
API CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, H s) { (void)s; return cuMemsetD8_v2(d, v, n); }
API CUresult cuMemsetD32_v2(CUdeviceptr d, unsigned v, size_t n) { CALL; unsigned *p = (unsigned *)(uintptr_t)d; while (n--) *p++ = v; return OK; }
API CUresult cuMemsetD32Async(CUdeviceptr d, unsigned v, size_t n, H s) { (void)s; return cuMemsetD32_v2(d, v, n); }
static CUresult ptr_attr(void *data, int a, uintptr_t p) {
    struct blk *b = mfind(p);
    switch (a) {
    case 1: *(H *)data = b ? &primary : NULL; return b ? OK : E_VALUE;  /* CONTEXT */
    case 2: *(unsigned *)data = b ? (unsigned)b->kind : 0; return b ? OK : E_VALUE; /* MEMORY_TYPE */
    case 3: *(CUdeviceptr *)data = p; return b ? OK : E_VALUE;
    case 4: *(void **)data = (void *)p; return b ? OK : E_VALUE;
    case 7: *(uint64_t *)data = 1; return OK;                           /* BUFFER_ID */
    case 8: *(unsigned *)data = 0; return OK;                           /* IS_MANAGED */
    case 9: *(int *)data = 0; return OK;                                /* DEVICE_ORDINAL */
    case 11: *(CUdeviceptr *)data = b ? (uintptr_t)b->p : 0; return OK;
    case 12: *(size_t *)data = b ? b->n : 0; return OK;
    default: *(int *)data = 0; return OK;
    }
}
API CUresult cuPointerGetAttribute(void *data, int a, CUdeviceptr p) { lg("call cuPointerGetAttribute(%d)", a); return ptr_attr(data, a, p); }
API CUresult cuPointerGetAttributes(unsigned n, int *a, void **data, CUdeviceptr p) { CALL; for (unsigned i = 0; i < n; i++) ptr_attr(data[i], a[i], p); return OK; }
API CUresult cuPointerSetAttribute(const void *v, int a, CUdeviceptr p) { CALL; (void)v; (void)a; (void)p; return OK; }

/* ---------------------------------------------------------------- pools, streams, events, graphs */
static char pool_[64];
static H mk(void) { return calloc(1, 64); }
API CUresult cuDeviceGetDefaultMemPool(H *p, CUdevice d) { CALL; (void)d; *p = pool_; return OK; }
API CUresult cuDeviceGetMemPool(H *p, CUdevice d) { CALL; (void)d; *p = pool_; return OK; }
API CUresult cuDeviceSetMemPool(CUdevice d, H p) { CALL; (void)d; (void)p; return OK; }
API CUresult cuMemPoolCreate(H *p, const void *props) { CALL; (void)props; *p = mk(); return OK; }
API CUresult cuMemPoolDestroy(H p) { CALL; if (p != (H)pool_) free(p); return OK; }
API CUresult cuMemPoolSetAttribute(H p, int a, void *v) { CALL; (void)p; (void)a; (void)v; return OK; }
API CUresult cuMemPoolGetAttribute(H p, int a, void *v) { CALL; (void)p; if (a <= 3) *(int *)v = 1; else *(uint64_t *)v = 0; return OK; }
API CUresult cuMemPoolTrimTo(H p, size_t n) { CALL; (void)p; (void)n; return OK; }
API CUresult cuMemPoolSetAccess(H p, const void *d, size_t n) { CALL; (void)p; (void)d; (void)n; return OK; }

API CUresult cuStreamCreate(H *s, unsigned f) { CALL; (void)f; *s = mk(); return OK; }
API CUresult cuStreamCreateWithPriority(H *s, unsigned f, int p) { CALL; (void)f; (void)p; *s = mk(); return OK; }
API CUresult cuStreamDestroy_v2(H s) { CALL; free(s); return OK; }
API CUresult cuStreamSynchronize(H s) { CALL; (void)s; return broken(); }
API CUresult cuStreamQuery(H s) { CALL; (void)s; return OK; }
API CUresult cuStreamWaitEvent(H s, H e, unsigned f) { CALL; (void)s; (void)e; (void)f; return OK; }
API CUresult cuStreamGetFlags(H s, unsigned *f) { CALL; (void)s; *f = 1; return OK; }
API CUresult cuStreamGetPriority(H s, int *p) { CALL; (void)s; *p = 0; return OK; }
API CUresult cuStreamGetCtx(H s, H *c) { CALL; (void)s; *c = cur() ? (H)cur() : (H)&primary; return OK; }
API CUresult cuStreamGetDevice(H s, CUdevice *d) { CALL; (void)s; *d = 0; return OK; }
API CUresult cuStreamGetId(H s, unsigned long long *i) { CALL; *i = (uintptr_t)s; return OK; }
/* capture: nothing is recorded, only the state changes hands, so that begin/end/instantiate/launch can be driven */
static int capturing;
static H capgraph;
API CUresult cuStreamBeginCapture_v2(H s, int m) { CALL; (void)s; (void)m; if (capturing) return 900; capturing = 1; capgraph = mk(); return OK; }
API CUresult cuStreamEndCapture(H s, H *g) { CALL; (void)s; if (!capturing) return 900; capturing = 0; *g = capgraph; capgraph = NULL; return OK; }
API CUresult cuStreamIsCapturing(H s, int *st) { CALL; (void)s; *st = capturing; return OK; }
API CUresult cuGraphCreate(H *g, unsigned f) { CALL; (void)f; *g = mk(); return OK; }
API CUresult cuGraphDestroy(H g) { CALL; free(g); return OK; }
API CUresult cuGraphInstantiateWithFlags(H *e, H g, unsigned long long f) { CALL; (void)g; (void)f; *e = mk(); return OK; }
API CUresult cuGraphInstantiateWithParams(H *e, H g, void *p) { CALL; (void)g; struct { uint64_t flags; H up, err; int result; } *q = p; q->err = NULL; q->result = 0; *e = mk(); return OK; }
API CUresult cuUserObjectCreate(H *o, void *p, void (*d)(void *), unsigned r, unsigned f) { CALL; (void)p; (void)d; (void)r; (void)f; *o = mk(); return OK; }
API CUresult cuUserObjectRelease(H o, unsigned n) { CALL; (void)o; (void)n; return OK; }
API CUresult cuGraphReleaseUserObject(H g, H o, unsigned n) { CALL; (void)g; (void)o; (void)n; return OK; }
API CUresult cuGraphRetainUserObject(H g, H o, unsigned n, unsigned f) { CALL; (void)g; (void)o; (void)n; (void)f; return OK; }
API CUresult cuGraphUpload(H e, H s) { CALL; (void)e; (void)s; return OK; }
API CUresult cuGraphLaunch(H e, H s) { CALL; (void)e; (void)s; return OK; }
API CUresult cuGraphExecDestroy(H e) { CALL; free(e); return OK; }
API CUresult cuStreamGetCaptureInfo_v2(H s, int *st, uint64_t *id, H *g, const H **deps, size_t *n) { CALL; (void)s; *st = capturing; if (id) *id = capturing; if (g) *g = capgraph; if (deps) *deps = NULL; if (n) *n = 0; return OK; }
API CUresult cuStreamGetCaptureInfo_v3(H s, int *st, uint64_t *id, H *g, const H **deps, const void **ed, size_t *n) { CALL; (void)s; *st = capturing; if (id) *id = capturing; if (g) *g = capgraph; if (deps) *deps = NULL; if (ed) *ed = NULL; if (n) *n = 0; return OK; }
API CUresult cuThreadExchangeStreamCaptureMode(int *m) { CALL; (void)m; return OK; }
API CUresult cuStreamAddCallback(H s, void (*cb)(H, CUresult, void *), void *u, unsigned f) { CALL; (void)f; cb(s, OK, u); return OK; }
API CUresult cuLaunchHostFunc(H s, void (*fn)(void *), void *u) { CALL; (void)s; fn(u); return OK; }
API CUresult cuEventCreate(H *e, unsigned f) { CALL; (void)f; *e = mk(); return OK; }
API CUresult cuEventRecord(H e, H s) { CALL; (void)s; clock_gettime(CLOCK_MONOTONIC, (struct timespec *)e); return OK; }
API CUresult cuEventRecordWithFlags(H e, H s, unsigned f) { (void)f; return cuEventRecord(e, s); }
API CUresult cuEventSynchronize(H e) { CALL; (void)e; return broken(); }
API CUresult cuEventQuery(H e) { CALL; (void)e; return OK; }
API CUresult cuEventDestroy_v2(H e) { CALL; free(e); return OK; }
API CUresult cuEventElapsedTime_v2(float *ms, H a, H b) { CALL; struct timespec *x = a, *y = b; *ms = (y->tv_sec - x->tv_sec) * 1e3f + (y->tv_nsec - x->tv_nsec) / 1e6f; return OK; }
API CUresult cuEventElapsedTime(float *ms, H a, H b) { return cuEventElapsedTime_v2(ms, a, b); }

/* ---------------------------------------------------------------- code objects: handles without code */
API CUresult cuModuleLoadData(H *m, const void *i) { CALL; (void)i; *m = mk(); return OK; }
API CUresult cuModuleLoadDataEx(H *m, const void *i, unsigned n, int *o, void **v) { CALL; (void)i; (void)n; (void)o; (void)v; *m = mk(); return OK; }
API CUresult cuModuleLoadFatBinary(H *m, const void *i) { CALL; (void)i; *m = mk(); return OK; }
API CUresult cuModuleUnload(H m) { CALL; free(m); return OK; }
API CUresult cuModuleGetFunction(H *f, H m, const char *n) { lg("call cuModuleGetFunction(%s)", n); (void)m; *f = mk(); return OK; }
API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *n, H m, const char *nm) { lg("call cuModuleGetGlobal(%s)", nm); (void)m; CUdeviceptr d; CUresult r = mnew(&d, 4096, 2); if (p) *p = d; if (n) *n = 4096; return r; }
API CUresult cuModuleGetLoadingMode(int *m) { CALL; *m = 2; return OK; }
API CUresult cuLibraryLoadData(H *l, const void *c, int *a, void **b, unsigned n, int *d, void **e, unsigned k) { CALL; (void)c; (void)a; (void)b; (void)n; (void)d; (void)e; (void)k; *l = mk(); return OK; }
API CUresult cuLibraryUnload(H l) { CALL; free(l); return OK; }
API CUresult cuLibraryGetKernel(H *k, H l, const char *n) { lg("call cuLibraryGetKernel(%s)", n); (void)l; *k = mk(); return OK; }
API CUresult cuLibraryGetModule(H *m, H l) { CALL; (void)l; *m = mk(); return OK; }
API CUresult cuLibraryGetGlobal(CUdeviceptr *p, size_t *n, H l, const char *nm) { return cuModuleGetGlobal_v2(p, n, l, nm); }
API CUresult cuKernelGetFunction(H *f, H k) { CALL; *f = k; return OK; }
API CUresult cuKernelGetLibrary(H *l, H k) { CALL; (void)k; *l = mk(); return OK; }
static int fattr(int a) { return a == 0 ? 1024 : a == 4 ? 32 : a == 5 || a == 6 ? cc_major * 10 + cc_minor : a == 8 ? 232448 : 0; }
API CUresult cuFuncGetAttribute(int *v, int a, H f) { CALL; (void)f; *v = fattr(a); return OK; }
API CUresult cuFuncSetAttribute(H f, int a, int v) { CALL; (void)f; (void)a; (void)v; return OK; }
API CUresult cuKernelGetAttribute(int *v, int a, H k, CUdevice d) { CALL; (void)k; (void)d; *v = fattr(a); return OK; }
API CUresult cuKernelSetAttribute(int a, int v, H k, CUdevice d) { CALL; (void)a; (void)v; (void)k; (void)d; return OK; }
API CUresult cuFuncSetCacheConfig(H f, int c) { CALL; (void)f; (void)c; return OK; }
API CUresult cuFuncGetModule(H *m, H f) { CALL; (void)f; *m = mk(); return OK; }
API CUresult cuFuncLoad(H f) { CALL; (void)f; return OK; }
API CUresult cuFuncIsLoaded(int *s, H f) { CALL; (void)f; *s = 1; return OK; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, H f, int b, size_t s) { CALL; (void)f; (void)b; (void)s; *n = 2; return OK; }
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, H f, int b, size_t s, unsigned fl) { (void)fl; return cuOccupancyMaxActiveBlocksPerMultiprocessor(n, f, b, s); }
API CUresult cuOccupancyMaxActiveClusters(int *n, H f, const void *c) { CALL; (void)f; (void)c; *n = 16; return OK; }
API CUresult cuLaunchKernel(H f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned sh, H s, void **p, void **x) { CALL; (void)f;(void)a;(void)b;(void)c;(void)d;(void)e;(void)g;(void)sh;(void)s;(void)p;(void)x; return launch_noop ? OK : E_UNSUP; }
API CUresult cuLaunchKernelEx(const void *c, H f, void **p, void **x) { CALL; (void)c; (void)f; (void)p; (void)x; return launch_noop ? OK : E_UNSUP; }
API CUresult cuLaunchCooperativeKernel(H f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned sh, H s, void **p) { CALL; (void)f;(void)a;(void)b;(void)c;(void)d;(void)e;(void)g;(void)sh;(void)s;(void)p; return launch_noop ? OK : E_UNSUP; }

API CUresult cuGetErrorName(CUresult e, const char **s) { *s = e == 0 ? "CUDA_SUCCESS" : e == E_OOM ? "CUDA_ERROR_OUT_OF_MEMORY" : e == E_LAUNCH ? "CUDA_ERROR_LAUNCH_FAILED" : e == E_UNSUP ? "CUDA_ERROR_NOT_SUPPORTED" : e == E_NOTFOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_(fakecuda)"; return OK; }
API CUresult cuGetErrorString(CUresult e, const char **s) { return cuGetErrorName(e, s); }
/* Private driver tables are not imitated, on purpose: nothing built on the CUDA runtime comes up on this stub;
   driver-API clients never ask for them. */
API CUresult cuGetExportTable(const void **t, const unsigned char *u) {
    lg("call cuGetExportTable(%02x%02x%02x%02x-...) -> not found", u[0], u[1], u[2], u[3]);
    *t = NULL;
    return E_NOTFOUND;
}

/* ---------------------------------------------------------------- lookup */
static CUresult unimpl(const char *n) { lg("UNIMPLEMENTED %s -> 801", n); return E_UNSUP; }
/* make a tiny function "return unimpl(name)" so that unknown entry points resolve and identify themselves */
static void *thunk(const char *name) {
    static unsigned char *page; static size_t off = 4096;
    pthread_mutex_lock(&mu);
    if (off + 32 > 4096) { page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); off = 0; }
    unsigned char *c = page + off; off += 32;
    pthread_mutex_unlock(&mu);
    uint64_t n = (uint64_t)(uintptr_t)strdup(name), f = (uint64_t)(uintptr_t)unimpl;
    c[0] = 0x48; c[1] = 0xBF; memcpy(c + 2, &n, 8);   /* mov rdi, name  */
    c[10] = 0x48; c[11] = 0xB8; memcpy(c + 12, &f, 8); /* mov rax, unimpl */
    c[20] = 0xFF; c[21] = 0xE0;                        /* jmp rax         */
    return c;
}
#include <dlfcn.h>
static void *self;
API CUresult cuGetProcAddress_v2(const char *s, void **p, int ver, uint64_t fl, int *st);
API CUresult cuGetProcAddress(const char *s, void **p, int ver, uint64_t fl) { return cuGetProcAddress_v2(s, p, ver, fl, NULL); }
API CUresult cuGetProcAddress_v2(const char *s, void **p, int ver, uint64_t fl, int *st) {
    cfg();
    if (!self) { Dl_info i; dladdr((void *)cuInit, &i); self = dlopen(i.dli_fname, RTLD_NOW | RTLD_NOLOAD); }
    char b[128]; void *f = NULL; const char *how = "own";
    if (!*s) { *p = NULL; if (st) *st = 1; return E_NOTFOUND; }
    if (!strcmp(s, "cuGetProcAddress")) f = ver >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    static const char *suf[] = { "_v4", "_v3", "_v2", "" };
    /* only the newest variant of each is implemented above, as every CUDA 12/13 client asks for it */
    for (int i = 0; !f && i < 4; i++) { snprintf(b, sizeof b, "%s%s", s, suf[i]); f = dlsym(self, b); }
    if (!f) { f = thunk(s); how = "THUNK"; }
    lg("getproc %s ver=%d flags=%llu -> %s", s, ver, (unsigned long long)fl, how);
    *p = f; if (st) *st = 0;
    return OK;
}
