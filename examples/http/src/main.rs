//! Serves `/report/NUMBER`, `/page` and `/metrics` on port 3000.

use mayfly::Clock;
use mayfly_http_example::Service;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Service::new(Clock::default())?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}/report/7", listener.local_addr()?);
    axum::serve(listener, service.router()).await?;
    Ok(())
}
