//! Work that is captured once and replayed as a whole: one driver call for a whole cycle.

#![allow(unsafe_code)] // calls to the driver; reasons at each place

use std::any::Any;
use std::rc::Rc;

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};

use super::context::{Captured, Context, Copy};
use super::driver::Call;
use super::error::{GpuError, code};
use super::stream::Stream;
use super::watch::Counts;

/// Work that was captured, ready to be launched again and again. It holds the host memory and the events
/// that it uses; pools must outlive its last replay.
pub struct Graph {
    context: Rc<Context>,
    raw: CUgraphExec,
    /// The work that a replay requests.
    each: Counts,
    copies: Vec<Copy>,
    _used: Vec<Rc<dyn Any>>,
}

impl Stream {
    /// Captures what `body` queues on this stream into a graph; none of it runs now. `body` must not query,
    /// allocate or free anything.
    ///
    /// # Errors
    /// The error of `body`; an error of the driver, which checks the whole capture when it ends.
    pub fn capture(&self, body: impl FnOnce() -> Result<(), GpuError>) -> Result<Graph, GpuError> {
        let context = &self.context;
        // For this thread only: concurrent driver calls of other threads do not invalidate the capture.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as i32;
        if context.is_capturing.get() {
            return context.line.refuse(Call::CaptureBegin, code::INVALID_VALUE);
        }
        // SAFETY: a live stream of this context.
        context.line.call(Call::CaptureBegin, |d| unsafe { (d.capture_begin)(self.raw, mode) })?;
        context.is_capturing.set(true);
        let mut capturing = Capturing { stream: self, graph: std::ptr::null_mut(), is_open: true };
        body()?;
        capturing.end()?;
        let captured = context.captured.take();
        let graph = capturing.graph;
        let mut raw: CUgraphExec = std::ptr::null_mut();
        context.line.call(Call::GraphInstantiate, |d| {
            // SAFETY: writes one handle; the graph is alive until `capturing` is dropped, and is not needed
            // afterwards.
            unsafe { (d.graph_instantiate)(&mut raw, graph, 0) }
        })?;
        let Captured { each, used, copies } = captured;
        let graph = Graph { context: context.clone(), raw, each, copies, _used: used };
        // SAFETY: live handles of this context.
        context.line.call(Call::GraphUpload, |d| unsafe { (d.graph_upload)(graph.raw, self.raw) })?;
        Ok(graph)
    }

    /// Runs all the captured work, after what was queued on this stream before.
    ///
    /// # Errors
    /// Returned without calling the driver: invalid handle if the graph belongs to another context, not ready
    /// while a thread uses host memory that the graph copies. Otherwise the driver's error.
    pub fn replay(&self, graph: &Graph) -> Result<(), GpuError> {
        if !Rc::ptr_eq(&graph.context, &self.context) {
            return self.context.line.refuse(Call::Replay, code::INVALID_HANDLE);
        }
        for Copy { page, range, way } in &graph.copies {
            if !page.flights.begin(&self.progress, range.clone(), *way) {
                return self.context.line.refuse(Call::Replay, code::NOT_READY);
            }
        }
        self.hand_over(Call::Replay, Counts { replays: 1, ..graph.each }, |d| {
            // SAFETY: live handles of this context; the graph holds the host memory that it uses, and no look
            // conflicts with it.
            unsafe { (d.replay)(graph.raw, self.raw) }
        })
    }
}

/// A capture under way: it ends and its graph is destroyed, whatever happens in between.
struct Capturing<'a> {
    stream: &'a Stream,
    graph: CUgraph,
    /// The driver has not been told to end the capture yet; an injected fault can prevent that call.
    is_open: bool,
}

impl Capturing<'_> {
    fn end(&mut self) -> Result<(), GpuError> {
        self.stream.context.is_capturing.set(false);
        self.stream.context.line.call(Call::CaptureEnd, |d| {
            self.is_open = false;
            // SAFETY: writes one handle, null if the capture has failed.
            unsafe { (d.capture_end)(self.stream.raw, &mut self.graph) }
        })
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        let context = &self.stream.context;
        context.is_capturing.set(false);
        context.captured.take();
        if self.is_open {
            // The body has failed, or a fault has prevented the call: the stream still has to leave the
            // capture.
            context.line.release(Call::CaptureEnd, |d| {
                // SAFETY: as in `end`.
                unsafe { (d.capture_end)(self.stream.raw, &mut self.graph) }
            });
        }
        if !self.graph.is_null() {
            // SAFETY: made by this capture, destroyed once.
            context.line.release(Call::GraphDestroy, |d| unsafe { (d.graph_destroy)(self.graph) });
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made in this context, destroyed once; a replay under way ends first.
        self.context.line.release(Call::GraphExecDestroy, |d| unsafe { (d.graph_exec_destroy)(self.raw) });
    }
}
