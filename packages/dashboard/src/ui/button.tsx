import type { ButtonHTMLAttributes, ComponentChildren } from 'preact'
import { Icon, type IconName } from './icon.tsx'

export interface ButtonProps extends Omit<ButtonHTMLAttributes, 'icon' | 'type' | 'disabled'> {
  /** `primary` once per view at most; `danger` for what can't be undone; `quiet` without a border. */
  kind?: 'primary' | 'plain' | 'quiet' | 'danger'
  icon?: IconName
  /** Shows the icon alone; `children` then is the accessible name. */
  isIconOnly?: boolean
  /** A request is under way: the button stays focusable and ignores clicks. */
  isBusy?: boolean
  type?: 'button' | 'submit'
  disabled?: boolean
  children: ComponentChildren
}

/** A button. It submits a form only with `type="submit"`. */
export function Button({
  kind = 'plain',
  icon,
  isIconOnly = false,
  isBusy = false,
  type = 'button',
  children,
  class: extra,
  onClick,
  ...rest
}: ButtonProps) {
  return (
    <button
      {...rest}
      type={type}
      class={`button ${kind}${isIconOnly ? ' icon-only' : ''}${typeof extra === 'string' ? ` ${extra}` : ''}`}
      aria-busy={isBusy ? 'true' : undefined}
      aria-disabled={isBusy ? 'true' : undefined}
      onClick={(event) => {
        if (isBusy) event.preventDefault()
        else onClick?.(event)
      }}
    >
      {icon === undefined ? null : <Icon name={icon} />}
      <span class={isIconOnly ? 'hidden-text' : undefined}>{children}</span>
    </button>
  )
}
