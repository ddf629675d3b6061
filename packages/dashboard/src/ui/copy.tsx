import { useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { toast } from './announce.tsx'
import { Button } from './button.tsx'

/** Copies a text and says so; where the browser forbids it, a dialog shows the text to be copied by hand. */
export async function copyText(text: string, what: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    toast(messages.more.copied(what))
    return true
  } catch {
    // Without https the clipboard is missing; the old command still works there.
    const isCopied = copySelected(text)
    if (isCopied) toast(messages.more.copied(what))
    else window.prompt(messages.more.failed, text)
    return isCopied
  }
}

/** Copies a text by selecting it in a field. Returns whether it was copied. */
function copySelected(text: string): boolean {
  const before = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'hidden-text'
  const takesFocus = (place: Element) => {
    place.append(field)
    field.focus({ preventScroll: true })
    return document.activeElement === field
  }
  // Only in the modal dialog on top a field takes the focus, and can be selected. The command returns true regardless.
  const isReady = [...document.querySelectorAll('dialog[open]'), document.body].some(takesFocus)
  field.select()
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- nothing replaces it where the clipboard is missing
  const isCopied = isReady && document.execCommand('copy')
  field.remove()
  if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  return isCopied
}

/** A button that copies a text. `what` names it in the message: `Key copied`. */
export function CopyButton({
  text,
  what = messages.more.what.code,
  label = messages.ui.copy,
  kind = 'plain',
}: {
  text: string
  what?: string | undefined
  label?: string
  kind?: 'plain' | 'quiet' | 'primary'
}) {
  const [isCopied, setCopied] = useState(false)
  return (
    <Button
      kind={kind}
      icon={isCopied ? 'check' : 'copy'}
      onClick={() => {
        void copyText(text, what).then((done) => {
          setCopied(done)
          setTimeout(() => setCopied(false), 2_000)
        })
      }}
    >
      {label}
    </Button>
  )
}

/** Code with a button that copies it. */
export function CodeBlock({ code, label, what }: { code: string; label: string; what?: string }) {
  return (
    <figure class="code-block">
      <figcaption class="hidden-text">{label}</figcaption>
      <pre tabIndex={0} role="group" aria-label={label}>
        <code>{code}</code>
      </pre>
      <CopyButton text={code} what={what} />
    </figure>
  )
}
