import { type LocalKafka, startKafka } from './engines/kafka.ts'
import { findFreePort } from './free-port.ts'
import { type TcpProxy, tcpProxy } from './tcp-proxy.ts'

/** Starts a broker that all clients reach through a proxy, because that is the address which the broker advertises. */
export async function startKafkaBehindProxy(dir: string): Promise<{ kafka: LocalKafka; proxy: TcpProxy }> {
  const port = await findFreePort()
  const proxy = await tcpProxy(`kafka://127.0.0.1:${port}`)
  try {
    return { kafka: await startKafka({ dir, port, advertisedPort: proxy.port, brokerSessionMs: 6_000 }), proxy }
  } catch (error) {
    await proxy.close()
    throw error
  }
}
