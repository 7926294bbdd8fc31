//! Formats of the access log, and the fields of its lines.

use std::str::FromStr;

/// LogFormat of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// JSON object with these fields.
    Json(Vec<LogField>),
    /// Combined format of Apache and nginx.
    Combined,
}

impl Default for LogFormat {
    fn default() -> Self {
        LogFormat::Json(LogField::ALL.into())
    }
}

/// Field of a line in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogField {
    /// Time of the request as in HTTP.
    Time,
    /// The same in milliseconds since the Unix epoch.
    Ms,
    /// Address of the client.
    Client,
    /// Method.
    Method,
    /// URL.
    Url,
    /// Version of HTTP.
    Protocol,
    /// Status of the reply.
    Status,
    /// Number of content bytes sent.
    Bytes,
    /// Whether all content was sent.
    Complete,
    /// Time until the last byte was passed to the connection.
    Microseconds,
    /// Time until the head of the origin's response arrived.
    OriginMicroseconds,
    /// Source of the reply, as in the metrics.
    Source,
    /// Value of Cache-Status.
    Cache,
    /// User-Agent of the request.
    UserAgent,
    /// Referer of the request.
    Referer,
}

impl LogField {
    /// All fields, in the order of a line by default.
    pub const ALL: [LogField; 15] = [
        LogField::Time,
        LogField::Ms,
        LogField::Client,
        LogField::Method,
        LogField::Url,
        LogField::Protocol,
        LogField::Status,
        LogField::Bytes,
        LogField::Complete,
        LogField::Microseconds,
        LogField::OriginMicroseconds,
        LogField::Source,
        LogField::Cache,
        LogField::UserAgent,
        LogField::Referer,
    ];

    /// Returns the name in a line.
    pub fn name(self) -> &'static str {
        match self {
            LogField::Time => "time",
            LogField::Ms => "ms",
            LogField::Client => "client",
            LogField::Method => "method",
            LogField::Url => "url",
            LogField::Protocol => "protocol",
            LogField::Status => "status",
            LogField::Bytes => "bytes",
            LogField::Complete => "complete",
            LogField::Microseconds => "microseconds",
            LogField::OriginMicroseconds => "origin_microseconds",
            LogField::Source => "source",
            LogField::Cache => "cache",
            LogField::UserAgent => "user_agent",
            LogField::Referer => "referer",
        }
    }
}

impl FromStr for LogField {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = LogField::ALL.into_iter();
        let found = all.find(|field| field.name() == text);
        found.ok_or_else(|| {
            let names = LogField::ALL.map(LogField::name).join(", ");
            format!("expected one of {names}")
        })
    }
}
