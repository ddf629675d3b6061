import { sluice } from '../../../lib/sluice.ts'

/** Takes an order, and answers with the receipt of its event. The event gets the session and the anonymous id of the page. */
export function POST(request: Request): Promise<Response> {
  return sluice().middleware(placeOrder)(request)
}

async function placeOrder(request: Request): Promise<Response> {
  const { total } = (await request.json()) as { total: number }
  const receipt = sluice().track('purchase', { total })
  // Only needed where the process is suspended after the response, as in serverless functions.
  await sluice().flush({ timeoutMs: 2_000 })
  return Response.json({ total, receipt }, { status: 201 })
}
