import type { Options } from './types.ts'

/** Also what a page passes to `consent`. */
type OptionsToRead = Omit<Options, 'consent'> & { consent?: string | undefined }

const rules = {
  url: /^https?:.+/,
  key: /^svc_\w+$/,
  site: /^(?!undefined$).{1,64}$/,
  storage: /^(none|tab|device|undefined)$/,
  gpc: /^(no-ids|off|ignore|undefined)$/,
  consent: /^(pending|granted)$/,
} as const

/**
 * Validates the options. `wrong` is called for each invalid option. Returns the address of /collect/batch with the key;
 * undefined when an option is invalid.
 */
export function readOptions(options: OptionsToRead, wrong: (message: string) => void): string | undefined {
  let isUsable = true
  for (const [name, rule] of Object.entries(rules)) {
    const value = options[name as keyof typeof rules]
    // A regular expression tests the text of any value; that of an absent option is `undefined`.
    const pattern: { test(value: unknown): boolean } = rule
    if (pattern.test(value)) continue
    wrong(`option ${name} is ${value}, not ${rule}`)
    isUsable = false
  }
  return isUsable ? `${options.url.replace(/\/+$/, '')}/collect/batch?api_key=${options.key}` : undefined
}
