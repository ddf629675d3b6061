import { createSluice } from './index.ts'
import type { Options, Sluice } from './types.ts'

/** A call that was queued before this script was loaded: `['track', 'signup', { plan: 'team' }]`. */
type Call = [name: string, ...parameters: unknown[]]

declare global {
  interface Window {
    sluice?: Partial<Sluice> & { q?: Call[] | { push: (...calls: Call[]) => void } }
  }
}

/** The element of this script, unless a module imports it into a page that has none. */
const script = (document.currentScript ?? document.querySelector('script[data-site]')) as HTMLScriptElement | null
const { dataset = {}, src }: Partial<HTMLScriptElement> = script ?? {}
const q = window.sluice?.q
/** `data-hash`, `data-hash=""` and `data-hash="true"` all mean yes; `undefined`: there is no attribute. */
const isOn = (value?: string): boolean => !/^(no|off|false|0|undefined)$/i.test(String(value))

// A second copy would track each page view once more: Turbo Drive runs the scripts of a page again after an error page.
const sluice =
  q && !Array.isArray(q)
    ? window.sluice
    : createSluice({
        // A proxy may serve the script and /collect below a path.
        // eslint-disable-next-line @typescript-eslint/prefer-nullish-coalescing -- '' for a script within the page
        url: new URL('.', src || document.baseURI).href,
        ...(dataset as Partial<Options> & { key: string; site: string }),
        autoPage: isOn(dataset.autoPage ?? ''),
        hash: isOn(dataset.hash),
        outbound: isOn(dataset.outbound),
        // Null, too, means none.
        propagate: dataset.propagate?.match(/[^\s,]+/g) as string[] | undefined,
      })

const run = (...calls: Call[]): void => {
  for (const [name, ...parameters] of calls) {
    const method = (sluice as unknown as Partial<Record<string, (...parameters: unknown[]) => unknown>>)[name]
    if (method) method(...parameters)
    // eslint-disable-next-line no-console -- without it a misspelt call would go unnoticed
    else console.warn(`Sluice: no method ${name}`)
  }
}

window.sluice = { ...sluice, q: { push: run } }
if (Array.isArray(q)) {
  run(...q)
  // The page may have kept the array.
  q.push = run as typeof q.push
}
