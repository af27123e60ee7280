//! A thread that answers questions one after the other, so that a tick need not wait.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::AgentError;

#[derive(Debug)]
pub(crate) struct Worker<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<A>,
    /// Questions whose answers were not taken yet.
    open: usize,
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    pub(crate) fn start(name: &str, answer: impl Fn(Q) -> A + Send + 'static) -> Result<Self, AgentError> {
        let (questions, incoming) = channel::<Q>();
        let (outgoing, answers) = channel();
        let work = move || {
            for question in incoming {
                if outgoing.send(answer(question)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        thread.map_err(AgentError::system("start a thread"))?;
        Ok(Self { questions, answers, open: 0 })
    }

    pub(crate) fn ask(&mut self, question: Q) {
        self.open += 1;
        // The thread ends only with this process.
        let _ = self.questions.send(question);
    }

    /// The answers since this was called last.
    pub(crate) fn answers(&mut self) -> Vec<A> {
        let answers: Vec<A> = self.answers.try_iter().collect();
        self.open -= answers.len();
        answers
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0
    }
}
