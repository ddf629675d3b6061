import { once } from '@sluice/runtime/once'
import type { StaticPage } from './app.ts'

/** A page that is built for its first request, so that building it does not delay the start of the service. */
export function pageOnDemand(path: string, build: () => StaticPage): StaticPage {
  const page = once(build)
  return { path, handle: (...request) => page().handle(...request) }
}
