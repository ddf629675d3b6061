import type { ComponentChildren } from 'preact'
import { useId, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api/error.ts'
import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'
import { CopyButton } from './copy.tsx'
import { Dialog, type DialogProps } from './dialog.tsx'
import { TextField } from './field.tsx'
import { useLeaveGuard } from './leave-guard.ts'
import { ErrorPanel } from './states.tsx'

export interface FormDialogProps extends Pick<DialogProps, 'title' | 'onClose' | 'size' | 'isDismissible'> {
  /** The text of the button that submits. */
  submit: string
  /** Resolves when it is done; what it throws is shown by `error`. */
  onSubmit: () => unknown
  isBusy: boolean
  /** The failure that belongs to no field. */
  error?: ApiError | undefined
  isDangerous?: boolean
  isDisabled?: boolean
  children?: ComponentChildren
}

/** Leads to the first field of a form that is wrong, once the form says so: it may be out of sight. */
export function focusFirstProblem(form: HTMLElement): void {
  requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
}

/** A dialog with fields; Enter submits it. While it is busy, the browser's buttons do not leave its page. */
export function FormDialog({
  submit,
  onSubmit,
  isBusy,
  error,
  isDangerous = false,
  isDisabled = false,
  children,
  ...dialog
}: FormDialogProps) {
  const form = useId()
  // A request under way is not stopped, and its result, such as a new secret, must be seen.
  useLeaveGuard('stay', isBusy)
  // `isBusy` is rendered too late for a second submit in the same moment.
  const isSubmitting = useRef(false)
  const submitOnce = async () => {
    if (isBusy || isDisabled || isSubmitting.current) return
    isSubmitting.current = true
    try {
      await onSubmit()
    } finally {
      isSubmitting.current = false
    }
  }
  return (
    <Dialog
      {...dialog}
      actions={
        <>
          <Button onClick={dialog.onClose}>{messages.ui.cancel}</Button>
          <Button
            kind={isDangerous ? 'danger' : 'primary'}
            type="submit"
            form={form}
            isBusy={isBusy}
            disabled={isDisabled}
          >
            {submit}
          </Button>
        </>
      }
    >
      <form
        id={form}
        class="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          // A date that is typed in part has the same value as none: the browser says so.
          const isTypedInPart = [...event.currentTarget.querySelectorAll('input')].some(
            (field) => field.validity.badInput && !field.reportValidity(),
          )
          if (isTypedInPart) return
          // A change's own state shows its error.
          submitOnce().catch(() => undefined)
          focusFirstProblem(event.currentTarget)
        }}
      >
        {children}
        <ErrorPanel error={error} />
      </form>
    </Dialog>
  )
}

/** Asks before something that can't be undone. With `typed`, that text has to be typed first. */
export function ConfirmDialog({
  typed,
  children,
  ...rest
}: Omit<FormDialogProps, 'isDangerous' | 'isDisabled'> & { typed?: string }) {
  const [text, setText] = useState('')
  return (
    <FormDialog {...rest} isDangerous isDisabled={typed !== undefined && text !== typed}>
      {children}
      {typed === undefined ? null : (
        <TextField
          label={messages.ui.typeToConfirm(typed)}
          value={text}
          onInput={setText}
          autocomplete="off"
          spellcheck={false}
        />
      )}
    </FormDialog>
  )
}

/** Shows a secret, or an id that no list contains, once. Only the button "I have saved it" closes it, and not the browser's Back. */
export function SecretDialog({
  title,
  secret,
  what,
  actions,
  children,
  onSaved,
}: {
  title: string
  secret: string
  /** Names the secret: `Key`. */
  what: string
  /** Further buttons, before "I have saved it". */
  actions?: ComponentChildren
  children: ComponentChildren
  onSaved: () => void
}) {
  useLeaveGuard('stay', true)
  return (
    <Dialog
      title={title}
      isDismissible={false}
      onClose={() => undefined}
      actions={
        <>
          {actions}
          <Button kind="primary" onClick={onSaved}>
            {messages.ui.saved}
          </Button>
        </>
      }
    >
      <div class="stack">
        <p>{children}</p>
        <div class="secret">
          <code>{secret}</code>
          <CopyButton text={secret} what={what} />
        </div>
      </div>
    </Dialog>
  )
}
